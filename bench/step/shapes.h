// The named shapes that step_bench measures, as a run would resolve them, and a micro-batch that fills their budget.
#pragma once

#include <cstdint>
#include <span>

#include "bench/step/options.h"
#include "train/run_shapes.h"
#include "train/slots.h"

namespace draftsmith::bench {

struct Documents {
  std::int64_t count = 0, length = 0, anchors = 0;  // anchors of each
};

struct Workload {
  RunShapes shapes;
  Documents documents;
};

//   demo      the target of examples/demo: 6 layers, 256 wide; 16 documents of 72 tokens with 16 anchors
//   wide      28 layers, 1024 wide, as Qwen3-0.6B; 2 documents of 256 tokens with 16 anchors
//   qwen3-8b  36 layers, 4096 wide, taps 1, 9, 17, 25, 33; 4 documents of 3072 tokens with 512 anchors
// Throws Error for any other name, and for documents beyond the target's positions.
Workload make_workload(const Options& options);

// Random tokens, supervised as `mask` says, with anchors drawn as training draws them. Fills slot.batch and slot.facts.
void fill_documents(const Workload& workload, MaskKind mask, Slot& slot);

}  // namespace draftsmith::bench
