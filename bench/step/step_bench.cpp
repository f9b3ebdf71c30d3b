// Times what a run spends its time in, with random weights and no model files, beside what the same matrix products
// take alone: the drafter's step, the target's prefill, plain decoding; and says what they hold in memory.
//   step_bench --shape demo|wide|qwen3-8b --device cpu:0|cuda:0 --work drafter --work prefill ...
#include <algorithm>
#include <cstdio>
#include <exception>

#include "bench/step/ceilings.h"
#include "bench/step/measure.h"
#include "train/resolve.h"

namespace draftsmith::bench {
namespace {

template <typename T>
void measure(const Measurement& m) {
  for (const Work work : m.options.works) {
    switch (work) {
      case Work::drafter:
        measure_drafter<T>(m);
        break;
      case Work::prefill:
        measure_prefill<T>(m);
        break;
      case Work::decode:
        measure_decoding<T>(m);
        break;
      case Work::demo_memory:
        measure_demo_memory(m.options, m.report);
        break;
    }
  }
}

int run(int argc, char** argv) {
  const auto options = parse_options(argc, argv);
  if (!options) return 0;
  Device device = open_device(options->device, options->threads, 1);
  device.tuning_folder = options->tuning_folder;
  attach_thread(device);
  const bool gpu = device.name.kind == DeviceKind::cuda;
  const Workload workload = make_workload(*options);
  Report report(*options, device);
  const Measurement measurement{
      .options = *options, .device = device, .workload = workload, .report = report};
  // bf16 where a CPU multiplies it; on a GPU always.
  const bool bf16_products = gpu || resolve_compute({}) == DType::bf16;
  if (gpu) report.set_ceiling(product_ceiling(device));
  bf16_products ? measure<bf16>(measurement) : measure<float>(measurement);
  return 0;
}

}  // namespace
}  // namespace draftsmith::bench

int main(int argc, char** argv) {
  try {
    return draftsmith::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "step_bench: %s\n", error.what());
    return 1;
  }
}
