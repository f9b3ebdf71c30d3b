// The sums of a step that travel with the gradient: those of the loss (kernels/block_loss.h), then what each
// drafter counts on the host. One exchange gives every drafter the same sums, and so the same decisions.
#pragma once

#include <cstdint>

#include "kernels/block_loss.h"

namespace draftsmith {

enum class HostSum : std::int64_t {
  documents_with_blocks,  // the denominator of D-PACE
  context_tokens,
  blocks,
  supervised_tokens,
  covered_tokens,
  stop_requests,  // drafters that were asked to stop
  epoch_after,    // where packing goes on after the step, from the drafter of its last micro-batch
  place_after,
  count
};

struct StepSums {
  static constexpr std::int64_t index(HostSum sum, std::int64_t block_size) {
    return LossSums::size(block_size) + static_cast<std::int64_t>(sum);
  }
  static constexpr std::int64_t host_sums() { return static_cast<std::int64_t>(HostSum::count); }
  static constexpr std::int64_t size(std::int64_t block_size) { return index(HostSum::count, block_size); }
  // What the loss is divided by: the sum of weights, or the documents with a block (docs/dflash.md, "Loss").
  static constexpr std::int64_t denominator(LossKind kind, std::int64_t block_size) {
    return kind == LossKind::dflash ? LossSums::kDenominator
                                    : index(HostSum::documents_with_blocks, block_size);
  }
};

}  // namespace draftsmith
