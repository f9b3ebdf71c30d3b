#include "bench/step/measure.h"

#include <functional>
#include <optional>

#include <fmt/core.h>

#include "bench/step/ceilings.h"
#include "bench/step/decoding.h"
#include "bench/step/packed_products.h"
#include "bench/step/timing.h"
#include "train/useful_flops.h"

namespace draftsmith::bench {
namespace {

constexpr std::int64_t kMostLaunches = 16384;

bool on_gpu(const Device& device) { return device.name.kind == DeviceKind::cuda; }

// One pass, noted launch by launch.
struct Noted {
  PassTimes times;
  std::vector<LaunchedProduct> products;
};
Noted note(const Stream& stream, std::int64_t vocabulary, const std::function<void()>& pass) {
  Recording recording(stream, vocabulary, kMostLaunches);
  pass();
  return {.times = {.kinds = recording.times(), .products = recording.product_times()},
          .products = recording.products()};
}

// Times in ms of several things done in turn, so that a machine that is busy for a while slows all of them.
std::vector<Times> alternating_ms(const Stream& stream, int runs,
                                  const std::vector<std::function<void()>>& bodies) {
  std::vector<std::vector<double>> ms(bodies.size());
  for (int run = 0; run <= runs; ++run) {
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      const double once = time_ms(stream, bodies[i]);
      if (run > 0) ms[i].push_back(once);  // the first round warms up
    }
  }
  std::vector<Times> times;
  for (const auto& values : ms) times.push_back(times_of(values));
  return times;
}

// The fastest that the library multiplies the products of a pass.
class Yardstick {
 public:
  Yardstick(const Device& device, const Stream& stream, const std::vector<LaunchedProduct>& products)
      : stream_(stream), products_(products) {
    if (!on_gpu(device)) packed_.emplace(device, products);
  }
  void run() {
    if (packed_) return packed_->run();
    launch_again(stream_, products_);
  }
  const char* name() const { return packed_ ? "packed GEMMs" : "GEMMs alone"; }

 private:
  const Stream stream_;
  const std::vector<LaunchedProduct>& products_;
  std::optional<PackedProducts> packed_;
};

// "B4 S3072 N512", and what else differs from the reference implementation's step.
std::string text_of(const Measurement& m) {
  const Documents& documents = m.workload.documents;
  return fmt::format("B{} S{} N{}, {}chunks of {}", documents.count, documents.length, documents.anchors,
                     m.options.mask == MaskKind::chat ? "chat, " : "",
                     m.workload.shapes.budget.loss_chunk_rows);
}

double tflops(double flops, double ms) { return flops / ms * 1e-9; }

Result beside(const std::string& work, const Times& ours, const Times& reference, const char* reference_is) {
  return {.work = work,
          .ours = ours.median,
          .reference = reference.median,
          .best_ratio = ours.best / reference.best,
          .reference_is = reference_is,
          .unit = "ms"};
}

void add_torch_steps(const Measurement& m, const std::string& work, const Times& step, const Times& updated) {
  if (m.options.mask != MaskKind::all) return;
  const auto add = [&](const std::string& what, double ours, bool optimizer) {
    const auto reference = m.report.torch_step_ms(m.workload.documents, optimizer);
    if (!reference) return;
    m.report.add({.work = what, .ours = ours, .reference = reference, .reference_is = "torch", .unit = "ms"});
  };
  add(work, step.median, false);
  add(work + " + update", updated.median, true);
}

}  // namespace

template <typename T>
void measure_drafter(const Measurement& m) {
  const std::string work = "drafter step " + text_of(m);
  const RunShapes& shapes = m.workload.shapes;
  DrafterBench<T> bench(m.device, m.workload, m.options.mask);
  const Stream& stream = bench.launcher().stream();
  const Noted step = note(stream, shapes.target.vocabulary, [&] { bench.launch_step(); });
  const Noted update = note(stream, shapes.target.vocabulary, [&] { bench.launch_update(); });
  Yardstick yardstick(m.device, stream, step.products);
  const std::vector<Times> ms =
      alternating_ms(stream, m.options.runs,
                     {[&] { bench.step(); }, [&] { bench.step(), bench.update(); }, [&] { yardstick.run(); },
                      [&] { launch_again(stream, step.products); }});
  bench.check_updated();
  const Times load = alternating_ms(stream, m.options.runs, {[&] { bench.load(); }})[0];
  const double flops = useful_drafter_flops(shapes.drafter, bench.facts());
  Result alone = beside(work, ms[0], ms[2], yardstick.name());
  alone.useful_tflops = tflops(flops, alone.ours);
  if (!on_gpu(m.device)) alone.goal.at_most = 2.5;
  m.report.add(alone);
  Result updated = beside(work + " + update", ms[1], ms[2], yardstick.name());
  updated.useful_tflops = tflops(flops, updated.ours);
  m.report.add(updated);
  m.report.add(beside(work + ": its products as prepared", ms[3], ms[2], yardstick.name()));
  m.report.add({.work = work + ": copy of a slot to the device", .ours = load.median, .unit = "ms"});
  add_torch_steps(m, work, ms[0], ms[1]);
  m.report.set_up(work, bench.set_up(), ms[1].median, m.report.torch_first_step_s(m.workload.documents));
  if (m.options.breakdown) {
    m.report.breakdown(work, step.times);
    m.report.breakdown("its update", update.times);
  }
  m.report.memory(work, m.device, bench.memory(), m.report.torch_peak_gib(m.workload.documents));
}

template <typename T>
void measure_prefill(const Measurement& m) {
  const RunShapes& shapes = m.workload.shapes;
  const std::string work = fmt::format("prefill, {} layers, {} x {} tokens", shapes.target_layers(),
                                       m.workload.documents.count, m.workload.documents.length);
  TargetBench<T> bench(m.device, m.workload);
  const Stream& stream = bench.launcher().stream();
  const Noted pass = note(stream, shapes.target.vocabulary, [&] { bench.launch_prefill(); });
  Yardstick yardstick(m.device, stream, pass.products);
  const std::vector<Times> ms =
      alternating_ms(stream, m.options.runs,
                     {[&] { bench.prefill(); }, [&] { yardstick.run(); },
                      [&] { launch_again(stream, pass.products); }, [&] { bench.prefill_with_slot(); }});
  const double flops = useful_target_flops(shapes.target, shapes.target_layers(), bench.facts());
  Result alone = beside(work, ms[0], ms[1], yardstick.name());
  alone.useful_tflops = tflops(flops, alone.ours);
  if (!on_gpu(m.device)) alone.goal.at_most = 2;
  m.report.add(alone);
  m.report.add(beside(work + ": its products as prepared", ms[2], ms[1], yardstick.name()));
  m.report.add({.work = work + ", from and to a slot", .ours = ms[3].median, .unit = "ms"});
  const auto tokens = static_cast<double>(shapes.budget.context_tokens);
  Result rate{.work = work, .ours = tokens / alone.ours * 1e3, .unit = "tokens/s"};
  if (const auto torch = m.report.torch_prefill_ms(m.workload.documents, shapes.target_layers())) {
    rate.reference = tokens / *torch * 1e3;
    rate.reference_is = "torch";
  }
  m.report.add(rate);
  m.report.set_up(work, bench.set_up(), ms[3].median, {});
  if (m.options.breakdown) m.report.breakdown(work, pass.times);
  m.report.memory(work, m.device, bench.memory(), {});
}

template <typename T>
void measure_decoding(const Measurement& m) {
  constexpr std::int64_t kContext = 256;
  DecodingBench<T> bench(m.device, m.workload, kContext);
  const Stream& stream = bench.launcher().stream();
  std::optional<MemoryReader> reader;
  std::vector<std::function<void()>> bodies = {[&] { bench.token(); }};
  if (!on_gpu(m.device)) {
    reader.emplace(m.device);
    bodies.push_back([&] { reader->read(); });
  }
  const std::vector<Times> ms = alternating_ms(stream, 4 * m.options.runs, bodies);
  const std::string work = fmt::format("plain decoding after {} tokens", kContext);
  const auto bytes = static_cast<double>(bench.weight_bytes());
  m.report.add({.work = work, .ours = ms[0].median, .unit = "ms"});
  Result rate{.work = work + ": weights read", .ours = bytes / ms[0].median * 1e-6, .unit = "GB/s"};
  if (reader) {
    const auto read_bytes = static_cast<double>(reader->bytes());
    rate.reference = read_bytes / ms[1].median * 1e-6;
    rate.best_ratio = bytes / ms[0].best / (read_bytes / ms[1].best);
    rate.reference_is = "memory reads";
    if (m.options.shape == "wide") rate.goal.at_least = 0.60;
  }
  m.report.add(rate);
  if (!m.options.breakdown) return;
  m.report.breakdown(work, note(stream, m.workload.shapes.target.vocabulary, [&] { bench.token(); }).times);
}

template void measure_drafter<float>(const Measurement&);
template void measure_drafter<bf16>(const Measurement&);
template void measure_prefill<float>(const Measurement&);
template void measure_prefill<bf16>(const Measurement&);
template void measure_decoding<float>(const Measurement&);
template void measure_decoding<bf16>(const Measurement&);

}  // namespace draftsmith::bench
