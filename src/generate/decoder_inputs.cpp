#include "generate/decoder_inputs.h"

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

}  // namespace draftsmith
