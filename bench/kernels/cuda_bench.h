// Times launches on one GPU: operands cut from an arena of random numbers, the median of ten.
#pragma once

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "base/random.h"
#include "device/memory.h"
#include "device/stream.h"
#include "kernels/launcher.h"
#include "kernels/tables.h"
#include "tensor/carver.h"

namespace draftsmith {

inline constexpr double kCopyRate = 4240e9, kProductRate = 791e12;  // measured on one H200
inline constexpr std::int64_t kArenaBytes = std::int64_t{16} << 30;

class Bench {
 public:
  explicit Bench(const Device& device)
      : device_(device),
        memory_(Buffer::on_device(device_, kArenaBytes)),
        scratch_(Buffer::on_device(device_, std::int64_t{256} << 20)),
        noise_(Buffer::on_device(device_, kNoise * static_cast<std::int64_t>(sizeof(bf16)))),
        carver_(memory_.data(), kArenaBytes),
        launch_(device_, kernels_of<bf16>(device_)) {
    launch_.library().set_scratch({scratch_.data(), scratch_.bytes()});
    make_noise();
    fill();
    for (int i = 0; i < kRuns; ++i) {
      begin_.emplace_back(device_);
      end_.emplace_back(device_);
    }
  }

  void copies();
  void norms();
  void ropes();
  void activations();
  void losses();
  void optimizer();
  void products();
  void experts();

 private:
  static constexpr int kRuns = 10;
  static constexpr std::int64_t kNoise = std::int64_t{1} << 24;

  // Random numbers of deviation about 1, in bf16; as floats they are finite, too.
  void make_noise() {
    const Random random(1, RandomStream::noise);
    std::vector<bf16> values(static_cast<std::size_t>(kNoise));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = bf16(static_cast<float>(random.uniform(i) * 3.46 - 1.73));
    }
    copy_bytes(launch_.stream(), noise_.data(), values.data(), noise_.bytes());
    synchronize(launch_.stream());
  }
  // Noise over the whole arena.
  void fill() {
    for (std::int64_t at = 0; at + noise_.bytes() <= kArenaBytes; at += noise_.bytes()) {
      copy_bytes(launch_.stream(), memory_.data() + at, noise_.data(), noise_.bytes());
    }
  }

  template <typename Arguments>
  void prepare(const Arguments& arguments) {
    launch_.set_mode(LaunchMode::measure);
    launch_(arguments);
    launch_.set_mode(LaunchMode::run);
  }

  template <typename Arguments>
  double median_ms(const Arguments& arguments) {
    prepare(arguments);
    for (int i = 0; i < 3; ++i) launch_(arguments);
    for (int i = 0; i < kRuns; ++i) {
      begin_[static_cast<std::size_t>(i)].record(launch_.stream());
      launch_(arguments);
      end_[static_cast<std::size_t>(i)].record(launch_.stream());
    }
    synchronize(launch_.stream());
    std::vector<double> ms;
    for (std::size_t i = 0; i < kRuns; ++i) ms.push_back(Event::elapsed_ms(begin_[i], end_[i]));
    std::nth_element(ms.begin(), ms.begin() + kRuns / 2, ms.end());
    return ms[kRuns / 2];
  }

  template <typename Arguments>
  void moves(const char* name, std::int64_t bytes, const Arguments& arguments) {
    const double ms = median_ms(arguments), rate = static_cast<double>(bytes) / ms * 1e3;
    std::printf("%-58s %8.3f ms %8.0f GB/s    %3.0f %%\n", name, ms, rate * 1e-9, rate / kCopyRate * 100);
  }

  template <typename Out>
  void product(const Matmul<bf16, Out>& arguments) {
    prepare(arguments);
    const std::string line = launch_.library().describe().back();
    const std::int64_t depth =
        arguments.form == MatmulForm::tn ? arguments.left.rows : arguments.left.columns;
    const std::int64_t rows = arguments.output.rows, columns = arguments.output.columns;
    const double ms = median_ms(arguments);
    if (rows <= kFewRows) {
      const double rate = static_cast<double>(columns * depth * 2) / ms * 1e3;
      std::printf("%-58s %8.3f ms %8.0f GB/s    %3.0f %%\n", line.c_str(), ms, rate * 1e-9,
                  rate / kCopyRate * 100);
      return;
    }
    const double rate = 2.0 * static_cast<double>(rows * columns * depth) / ms * 1e3;
    std::printf("%-58s %8.3f ms %8.0f TFLOP/s %3.0f %%\n    %s\n", line.substr(0, line.find(':')).c_str(), ms,
                rate * 1e-12, rate / kProductRate * 100, line.substr(line.find(':') + 2).c_str());
  }

  void expert_layer(std::int64_t rows);
  void expert_products(const char* what, const ExpertProducts<bf16>& arguments);

  Matrix<bf16> matrix(std::int64_t rows, std::int64_t columns) { return carver_.matrix<bf16>(rows, columns); }

  template <typename E>
  Vector<E> uploaded(const std::vector<E>& values) {
    const Vector<E> vector = carver_.vector<E>(static_cast<std::int64_t>(values.size()));
    copy_bytes(launch_.stream(), vector.data, values.data(),
               static_cast<std::int64_t>(values.size() * sizeof(E)));
    synchronize(launch_.stream());
    return vector;
  }
  Vector<std::int32_t> indices(std::int64_t count, std::int64_t below) {
    const Random random(2, RandomStream::noise);
    std::vector<std::int32_t> values;
    for (std::int64_t i = 0; i < count; ++i) {
      values.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(i), below)));
    }
    return uploaded(values);
  }

  const Device device_;
  Buffer memory_, scratch_, noise_;
  Carver carver_;
  Launcher<bf16> launch_;
  std::vector<Event> begin_, end_;
};

}  // namespace draftsmith
