// The measurements of step_bench, each beside its yardstick in the same run, alternating.
#pragma once

#include "bench/step/report.h"
#include "bench/step/shapes.h"

namespace draftsmith::bench {

struct Measurement {
  const Options& options;
  const Device& device;
  const Workload& workload;
  Report& report;
};

// The drafter's step, with and without the update.
template <typename T>
void measure_drafter(const Measurement& measurement);

// The target's pass over packed documents, up to the last tap.
template <typename T>
void measure_prefill(const Measurement& measurement);

// One token at a time through the whole target.
template <typename T>
void measure_decoding(const Measurement& measurement);

// The most memory that training the demo has resident. Runs `program`; Linux's count.
void measure_demo_memory(const Options& options, Report& report);

}  // namespace draftsmith::bench
