// What the host tells a decoding device in a call, side by side in one piece of memory, so that one copy moves
// all of it: laid out alike on the host, which writes it, and on the device.
#pragma once

#include "model/micro_batch.h"

namespace draftsmith {

struct DecoderInputs {
  MicroBatch block;                                    // one draft block
  Vector<std::int32_t> tokens, positions, begin, end;  // [rows]: of a chunk, a block or a token
  Vector<std::byte> bytes;                             // all of these
};

DecoderInputs carve_inputs(Carver& carver, const BatchBudget& block, std::int64_t rows);

}  // namespace draftsmith
