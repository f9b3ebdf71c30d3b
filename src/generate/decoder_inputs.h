// What the host tells a decoding device in a call, side by side in one piece of memory, so that one copy moves
// all of it: laid out alike on the host, which writes it, and on the device.
#pragma once

#include "model/micro_batch.h"

namespace draftsmith {

struct DecoderInputs {
  MicroBatch block;                                    // one draft block; write_block says what of it
  Vector<std::int32_t> tokens, positions, begin, end;  // [rows]: of a chunk, a block or a token
  Vector<std::byte> bytes;                             // all of these
};

DecoderInputs carve_inputs(Carver& carver, const BatchBudget& block, std::int64_t rows);

// What the drafter's forward reads of a block that follows `length` tokens, all of which it sees, and begins with `last`,
// the next one: the rows of the head are its slots from 1 on.
void write_block(const MicroBatch& block, const DrafterShape& shape, std::int32_t last, std::int64_t length);

}  // namespace draftsmith
