// One micro-batch: documents packed into a fixed budget of context rows, draft blocks at their anchors, and
// the supervised slots compacted for the head. Lengths and anchors are data; the shapes never change.
//
// The visibility rule of DFlash lives here (MicroBatchBuilder::add_block): a slot of the block at anchor a
// sees the context rows of its own document strictly before a, and its own block.
//
// DFlash, arXiv 2602.06036, and docs/dflash.md: a block at anchor a has slots k = 0 .. block_size - 1 at positions a + k;
// slot 0 is the anchor's token, the others are mask tokens; slot k > 0 predicts token a + k.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"
#include "model/shape.h"
#include "tensor/carver.h"
#include "tensor/tensor.h"

namespace draftsmith {

// What every micro-batch of a run has room for.
struct BatchBudget {
  std::int64_t context_tokens = 0;
  std::int64_t blocks = 0;
  std::int64_t block_size = 0;
  std::int64_t loss_chunk_rows = 256;  // rows of one pass through the head; at least block_size - 1

  std::int64_t draft_rows() const { return blocks * block_size; }
  // Chunks that hold every slot of every block, whichever of them are supervised. The last layer ends with the rows of
  // all of them, the head sees those of the chunks in use.
  std::int64_t loss_chunks() const;
  std::int64_t loss_rows() const { return loss_chunks() * loss_chunk_rows; }
};

// Rows of one pass through the head that suit both its products and a batch in which every slot is supervised: whole
// blocks, shared out evenly over as few chunks as there can be of at most 2,048 rows, where blocks are not longer.
std::int64_t usual_loss_chunk_rows(std::int64_t blocks, std::int64_t block_size);

// What is in use of a budget, known on the host when the batch is packed.
struct BatchCounts {
  std::int64_t documents = 0;
  std::int64_t documents_with_blocks = 0;  // the denominator of D-PACE
  std::int64_t context_tokens = 0;
  std::int64_t blocks = 0;
  std::int64_t supervised = 0;   // rows of the head in use
  std::int64_t loss_chunks = 0;  // chunks with any row in use
};

// Views of one micro-batch, on the host (a slot) or on a device. All entries are written by the builder.
struct MicroBatch {
  Vector<std::int32_t> tokens;     // [context_tokens]; unused rows hold token 0
  Vector<std::int32_t> positions;  // [context_tokens]: in the document
  Vector<std::int32_t>
      document_begin;  // [context_tokens]: first row of the document; own row for unused rows
  Vector<std::int32_t>
      causal_end;  // [context_tokens]: own row + 1; with document_begin the target's intervals
  Vector<std::int32_t> draft_tokens;     // [draft_rows]
  Vector<std::int32_t> draft_positions;  // [draft_rows]
  Vector<std::int32_t> context_begin;    // [draft_rows]: full layers
  Vector<std::int32_t> sliding_begin;    // [draft_rows]: sliding layers
  Vector<std::int32_t> context_end;      // [draft_rows]: the anchor's row; -1 for invalid blocks
  Vector<std::int32_t> draft_loss_rows;  // [draft_rows]: row of the head of this slot, -1 none
  Vector<std::int32_t> loss_index;       // [loss_rows]: draft row of this row of the head, -1 unused
  Vector<std::int32_t> loss_labels;      // [loss_rows]: -1 unused
  Vector<std::int32_t> loss_blocks;      // [loss_rows]
  Vector<std::int32_t> loss_offsets;     // [loss_rows]
  Vector<std::int32_t>
      loss_teachers;  // [loss_rows]: context row whose next token the slot predicts, -1 unused
};

// Cuts the arrays one after another, so that one copy of `bytes` moves them all.
MicroBatch carve_micro_batch(Carver& carver, const BatchBudget& budget);

// Fills a MicroBatch document by document. Takes no heap after construction.
class MicroBatchBuilder {
 public:
  MicroBatchBuilder(const BatchBudget& budget, const DrafterShape& shape);

  // Empties the batch that is built next.
  void begin(const MicroBatch& batch);

  // Whether a document of that many tokens, with that many blocks, still fits.
  bool fits(std::int64_t tokens, std::int64_t blocks) const;

  // Adds a document with blocks at `anchors` (positions in the document, ascending). A slot is supervised
  // when it lies inside the document and loss_mask says so. It must fit.
  void add_document(std::span<const std::int32_t> tokens, std::span<const std::uint8_t> loss_mask,
                    std::span<const std::int32_t> anchors);

  // Marks what is left of the budget unused.
  BatchCounts finish();

 private:
  void add_block(std::int64_t document_row, std::int64_t anchor, std::span<const std::int32_t> tokens,
                 std::span<const std::uint8_t> loss_mask);
  void add_loss_rows(std::int64_t block, std::int64_t document_row, std::int64_t anchor,
                     std::span<const std::int32_t> tokens, std::span<const std::uint8_t> loss_mask);
  void write_unused_block(std::int64_t block);

  // Constant after construction.
  const BatchBudget budget_;
  const std::int64_t sliding_window_;
  const std::int32_t mask_token_;
  // Of the batch being built.
  MicroBatch batch_;
  BatchCounts counts_;
  std::int64_t loss_rows_used_ = 0;  // gaps at the ends of chunks count
};

// A position can be an anchor when its token and the next one are supervised (p in 0 .. length - 2).
bool valid_anchor(std::span<const std::uint8_t> loss_mask, std::int64_t position);

// Draws `count` of the document's valid anchors without replacement, or all when there are no more,
// ascending: one number per position from `random`, the lowest win (docs/dflash.md, "Anchors"). `anchors` is
// overwritten; it takes no heap once it has room for the document's length.
void draw_anchors(std::span<const std::uint8_t> loss_mask, std::int64_t count, const Random& random,
                  std::vector<std::int32_t>& anchors);

}  // namespace draftsmith
