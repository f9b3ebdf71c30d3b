#include "kernels/cuda/choose_algorithm.h"

#include <algorithm>
#include <limits>
#include <span>
#include <vector>

#include <fmt/core.h>

#include "device/memory.h"
#include "device/stream.h"
#include "kernels/cuda/tuning.h"

namespace draftsmith::cuda {

namespace {

constexpr std::size_t kFinalists = 4;  // measured again; the shortest time of each counts
constexpr int kFinalRounds = 3;
// Of products that take a millisecond and more fewer are measured, and less often: they are timed well at once.
constexpr double kLargeMs = 1;
constexpr std::size_t kLargeCandidates = 10;
constexpr int kLargeRounds = 1;
// An algorithm's kernel is loaded by a product of this depth, so that its first measurement does not count the loading.
constexpr std::int64_t kShallowDepth = 256;

std::int64_t bytes_of(DType type) { return type == DType::bf16 ? 2 : 4; }

std::int64_t left_elements(const MatmulShape& shape) {
  return (shape.form == MatmulForm::tn ? shape.depth : shape.rows) * shape.left_stride;
}
std::int64_t right_elements(const MatmulShape& shape) {
  return (shape.form == MatmulForm::nt ? shape.columns : shape.depth) * shape.right_stride;
}

MatmulShape shallow(MatmulShape shape) {
  shape.depth = std::min(shape.depth, kShallowDepth);
  return shape;
}

// Operands for measuring, freed when the choice is made.
class Trial {
 public:
  Trial(const Device& device, const MatmulShape& shape, const LibraryProduct& product)
      : stream_{.device = &device},
        product_(product),
        shallow_(device, shallow(shape)),
        left_(Buffer::on_device(device, left_elements(shape) * bytes_of(shape.storage))),
        right_(Buffer::on_device(device, right_elements(shape) * bytes_of(shape.storage))),
        bias_(Buffer::on_device(device, shape.columns * bytes_of(shape.storage))),
        output_(Buffer::on_device(device, shape.rows * shape.output_stride * bytes_of(shape.output))),
        scratch_(Buffer::on_device(device, kMaxScratchBytes)),
        digests_(Buffer::on_device(device, 2 * sizeof(std::uint64_t))),
        begin_(device),
        end_(device) {
    fill_random(stream_, shape.storage, left_.data(), left_elements(shape), 1);
    fill_random(stream_, shape.storage, right_.data(), right_elements(shape), 2);
    fill_random(stream_, shape.storage, bias_.data(), shape.columns, 3);
  }

  // Whether it runs; loads its kernel.
  bool loads(const Algorithm& algorithm) {
    return shallow_.run(stream_, operands(), algorithm) == CUBLAS_STATUS_SUCCESS ||
           product_.run(stream_, operands(), algorithm) == CUBLAS_STATUS_SUCCESS;
  }

  // Whether two runs agree.
  bool repeats(const Algorithm& algorithm) {
    auto* digests = reinterpret_cast<std::uint64_t*>(digests_.data());
    for (int run = 0; run < 2; ++run) {
      fill_bytes(stream_, output_.data(), 0, output_.bytes());
      if (product_.run(stream_, operands(), algorithm) != CUBLAS_STATUS_SUCCESS) return false;
      digest_bytes(stream_, output_.data(), output_.bytes(), digests + run);
    }
    std::uint64_t found[2];
    copy_bytes(stream_, found, digests, sizeof found);
    synchronize(stream_);
    return found[0] == found[1];
  }

  double time_ms(const Algorithm& algorithm) {
    begin_.record(stream_);
    check(product_.run(stream_, operands(), algorithm), "measuring a product");
    end_.record(stream_);
    end_.synchronize();
    return Event::elapsed_ms(begin_, end_);
  }

 private:
  MatmulOperands operands() const {
    return {.left = left_.data(),
            .right = right_.data(),
            .bias = bias_.data(),
            .output = output_.data(),
            .scratch = scratch_.data()};
  }

  Stream stream_;
  const LibraryProduct& product_;
  LibraryProduct shallow_;
  Buffer left_, right_, bias_, output_, scratch_, digests_;
  Event begin_, end_;
};

struct Measured {
  Algorithm algorithm;
  double ms;
};

void sort(std::span<Measured> measured) {
  std::stable_sort(measured.begin(), measured.end(),
                   [](const Measured& a, const Measured& b) { return a.ms < b.ms; });
}

// Every candidate once, the fastest few again: the fastest first.
std::vector<Measured> measure(Trial& trial, const std::vector<Algorithm>& proposals) {
  std::vector<Measured> candidates;
  double fastest = std::numeric_limits<double>::infinity();
  for (const Algorithm& algorithm : proposals) {
    if (candidates.size() >= kLargeCandidates && fastest >= kLargeMs) break;
    if (!trial.loads(algorithm)) continue;
    candidates.push_back({algorithm, trial.time_ms(algorithm)});
    fastest = std::min(fastest, candidates.back().ms);
  }
  sort(candidates);
  const auto finalists = std::span(candidates).first(std::min(kFinalists, candidates.size()));
  for (int round = 0; round < (fastest < kLargeMs ? kFinalRounds : kLargeRounds); ++round) {
    for (Measured& one : finalists) one.ms = std::min(one.ms, trial.time_ms(one.algorithm));
  }
  sort(finalists);
  return candidates;
}

}  // namespace

Algorithm choose_algorithm(const Device& device, const MatmulShape& shape, const LibraryProduct& product) {
  Trial trial(device, shape, product);
  for (const Measured& one : measure(trial, product.propose())) {
    if (trial.repeats(one.algorithm)) return one.algorithm;
  }
  throw Error(fmt::format("cuBLASLt offers no algorithm for the product {} that gives the same bits twice",
                          shape.text()));
}

}  // namespace draftsmith::cuda
