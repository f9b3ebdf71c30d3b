#include "generate/decoder_inputs.h"

#include <algorithm>
#include <numeric>

#include "base/arithmetic.h"

namespace draftsmith {

DecoderInputs carve_inputs(Carver& carver, const BatchBudget& block, std::int64_t rows) {
  const std::int64_t first = carver.mark();
  DecoderInputs inputs;
  inputs.tokens = carver.vector<std::int32_t>(rows);
  for (Vector<std::int32_t>* input : {&inputs.positions, &inputs.begin, &inputs.end}) {
    *input = carver.vector<std::int32_t>(rows);
  }
  inputs.block = carve_micro_batch(carver, block);
  inputs.bytes = {reinterpret_cast<std::byte*>(inputs.tokens.data), carver.mark() - first};
  return inputs;
}

void write_block(const MicroBatch& block, const DrafterShape& shape, std::int32_t last, std::int64_t length) {
  for (std::int64_t slot = 0; slot < shape.block_size; ++slot) {
    const std::int64_t position = length + slot;
    block.draft_tokens[slot] = slot == 0 ? last : narrow<std::int32_t>(shape.mask_token_id);
    block.draft_positions[slot] = narrow<std::int32_t>(position);
    block.context_begin[slot] = 0;
    block.sliding_begin[slot] =
        narrow<std::int32_t>(std::max<std::int64_t>(0, position - (shape.sliding_window - 1)));
    block.context_end[slot] = narrow<std::int32_t>(length);
  }
  std::iota(block.loss_index.begin(), block.loss_index.end(), 1);
}

}  // namespace draftsmith
