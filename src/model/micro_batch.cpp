#include "model/micro_batch.h"

#include <algorithm>

#include "base/arithmetic.h"

namespace draftsmith {

std::int64_t BatchBudget::loss_chunks() const {
  DRAFTSMITH_CHECK(block_size > 1 && loss_chunk_rows >= block_size - 1, "a block's rows fit into one chunk");
  // A chunk is closed when the next block does not fit. A block has at most block_size - 1 rows, so every closed chunk
  // has at least as many blocks as whole ones fit.
  return div_ceil(blocks, loss_chunk_rows / (block_size - 1));
}

std::int64_t usual_loss_chunk_rows(std::int64_t blocks, std::int64_t block_size) {
  constexpr std::int64_t kMostRows = 2048;
  const std::int64_t supervised = block_size - 1;  // of a block
  const std::int64_t chunks = div_ceil(blocks, std::max<std::int64_t>(1, kMostRows / supervised));
  return div_ceil(blocks, chunks) * supervised;
}

MicroBatch carve_micro_batch(Carver& carver, const BatchBudget& budget) {
  const std::int64_t context = budget.context_tokens, drafts = budget.draft_rows(),
                     losses = budget.loss_rows();
  return {.tokens = carver.vector<std::int32_t>(context),
          .positions = carver.vector<std::int32_t>(context),
          .document_begin = carver.vector<std::int32_t>(context),
          .causal_end = carver.vector<std::int32_t>(context),
          .draft_tokens = carver.vector<std::int32_t>(drafts),
          .draft_positions = carver.vector<std::int32_t>(drafts),
          .context_begin = carver.vector<std::int32_t>(drafts),
          .sliding_begin = carver.vector<std::int32_t>(drafts),
          .context_end = carver.vector<std::int32_t>(drafts),
          .draft_loss_rows = carver.vector<std::int32_t>(drafts),
          .loss_index = carver.vector<std::int32_t>(losses),
          .loss_labels = carver.vector<std::int32_t>(losses),
          .loss_blocks = carver.vector<std::int32_t>(losses),
          .loss_offsets = carver.vector<std::int32_t>(losses),
          .loss_teachers = carver.vector<std::int32_t>(losses)};
}

MicroBatchBuilder::MicroBatchBuilder(const BatchBudget& budget, const DrafterShape& shape)
    : budget_(budget),
      sliding_window_(shape.sliding_window),
      mask_token_(narrow<std::int32_t>(shape.mask_token_id)) {
  DRAFTSMITH_CHECK(budget.block_size == shape.block_size, "budget and drafter have one block size");
}

void MicroBatchBuilder::begin(const MicroBatch& batch) {
  batch_ = batch;
  counts_ = {};
  loss_rows_used_ = 0;
}

bool MicroBatchBuilder::fits(std::int64_t tokens, std::int64_t blocks) const {
  return counts_.context_tokens + tokens <= budget_.context_tokens &&
         counts_.blocks + blocks <= budget_.blocks;
}

void MicroBatchBuilder::add_document(std::span<const std::int32_t> tokens,
                                     std::span<const std::uint8_t> loss_mask,
                                     std::span<const std::int32_t> anchors) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  DRAFTSMITH_CHECK(fits(length, static_cast<std::int64_t>(anchors.size())),
                   "the caller asked whether it fits");
  const std::int64_t first = counts_.context_tokens;
  for (std::int64_t position = 0; position < length; ++position) {
    const std::int64_t row = first + position;
    batch_.tokens[row] = tokens[position];
    batch_.positions[row] = static_cast<std::int32_t>(position);
    batch_.document_begin[row] = static_cast<std::int32_t>(first);
    batch_.causal_end[row] = static_cast<std::int32_t>(row + 1);
  }
  for (const std::int32_t anchor : anchors) add_block(first, anchor, tokens, loss_mask);
  counts_.context_tokens += length;
  counts_.documents += 1;
  counts_.documents_with_blocks += anchors.empty() ? 0 : 1;
}

void MicroBatchBuilder::add_block(std::int64_t document_row, std::int64_t anchor,
                                  std::span<const std::int32_t> tokens,
                                  std::span<const std::uint8_t> loss_mask) {
  const std::int64_t block = counts_.blocks++;
  for (std::int64_t offset = 0; offset < budget_.block_size; ++offset) {
    const std::int64_t row = block * budget_.block_size + offset;
    const std::int64_t position = anchor + offset;
    batch_.draft_tokens[row] = offset == 0 ? tokens[anchor] : mask_token_;
    batch_.draft_positions[row] = static_cast<std::int32_t>(position);
    batch_.context_begin[row] = static_cast<std::int32_t>(document_row);
    batch_.context_end[row] = static_cast<std::int32_t>(document_row + anchor);  // strictly before the anchor
    // A window of W positions, the slot's own among them; past the anchor's row nothing of the context is
    // left.
    const std::int64_t oldest = std::clamp<std::int64_t>(position - (sliding_window_ - 1), 0, anchor);
    batch_.sliding_begin[row] = static_cast<std::int32_t>(document_row + (sliding_window_ > 0 ? oldest : 0));
    batch_.draft_loss_rows[row] = -1;
  }
  add_loss_rows(block, document_row, anchor, tokens, loss_mask);
}

void MicroBatchBuilder::add_loss_rows(std::int64_t block, std::int64_t document_row, std::int64_t anchor,
                                      std::span<const std::int32_t> tokens,
                                      std::span<const std::uint8_t> loss_mask) {
  const auto length = static_cast<std::int64_t>(tokens.size());
  const auto supervised = [&](std::int64_t offset) {
    return anchor + offset < length && loss_mask[anchor + offset];
  };
  std::int64_t count = 0;
  for (std::int64_t offset = 1; offset < budget_.block_size; ++offset) count += supervised(offset) ? 1 : 0;
  if (count == 0) return;
  const std::int64_t chunk_end = round_up(loss_rows_used_ + 1, budget_.loss_chunk_rows);
  const auto write = [&](std::int64_t index, std::int32_t label, std::int64_t offset, std::int64_t teacher) {
    batch_.loss_index[loss_rows_used_] = static_cast<std::int32_t>(index);
    batch_.loss_labels[loss_rows_used_] = label;
    batch_.loss_blocks[loss_rows_used_] = static_cast<std::int32_t>(block);
    batch_.loss_offsets[loss_rows_used_] = static_cast<std::int32_t>(offset);
    batch_.loss_teachers[loss_rows_used_] = static_cast<std::int32_t>(teacher);
    ++loss_rows_used_;
  };
  if (loss_rows_used_ + count > chunk_end) {
    while (loss_rows_used_ < chunk_end) write(-1, -1, 0, -1);
  }
  for (std::int64_t offset = 1; offset < budget_.block_size; ++offset) {
    if (!supervised(offset)) continue;
    const std::int64_t teacher =
        document_row + anchor + offset - 1;  // the target's logits there are for this token
    const std::int64_t row = block * budget_.block_size + offset;
    batch_.draft_loss_rows[row] = static_cast<std::int32_t>(loss_rows_used_);
    write(row, tokens[anchor + offset], offset, teacher);
  }
  counts_.supervised += count;
}

void MicroBatchBuilder::write_unused_block(std::int64_t block) {
  for (std::int64_t row = block * budget_.block_size; row < (block + 1) * budget_.block_size; ++row) {
    batch_.draft_tokens[row] = mask_token_;
    batch_.draft_positions[row] = 0;
    batch_.context_begin[row] = 0;
    batch_.sliding_begin[row] = 0;
    batch_.context_end[row] = -1;
    batch_.draft_loss_rows[row] = -1;
  }
}

BatchCounts MicroBatchBuilder::finish() {
  for (std::int64_t row = counts_.context_tokens; row < budget_.context_tokens; ++row) {
    batch_.tokens[row] = 0;
    batch_.positions[row] = 0;
    batch_.document_begin[row] = static_cast<std::int32_t>(row);  // sees itself only
    batch_.causal_end[row] = static_cast<std::int32_t>(row + 1);
  }
  for (std::int64_t block = counts_.blocks; block < budget_.blocks; ++block) write_unused_block(block);
  counts_.loss_chunks = div_ceil(loss_rows_used_, budget_.loss_chunk_rows);
  for (std::int64_t row = loss_rows_used_; row < budget_.loss_rows(); ++row) {
    batch_.loss_index[row] = batch_.loss_labels[row] = batch_.loss_teachers[row] = -1;
    batch_.loss_blocks[row] = batch_.loss_offsets[row] = 0;
  }
  return counts_;
}

bool valid_anchor(std::span<const std::uint8_t> loss_mask, std::int64_t position) {
  return position + 1 < static_cast<std::int64_t>(loss_mask.size()) && loss_mask[position] &&
         loss_mask[position + 1];
}

void draw_anchors(std::span<const std::uint8_t> loss_mask, std::int64_t count, const Random& random,
                  std::vector<std::int32_t>& anchors) {
  anchors.clear();
  for (std::int64_t position = 0; position + 1 < static_cast<std::int64_t>(loss_mask.size()); ++position) {
    if (valid_anchor(loss_mask, position)) anchors.push_back(static_cast<std::int32_t>(position));
  }
  if (static_cast<std::int64_t>(anchors.size()) <= count) return;
  const auto earlier = [&](std::int32_t a, std::int32_t b) {
    const std::uint64_t key_a = random.bits(a), key_b = random.bits(b);
    return key_a != key_b ? key_a < key_b : a < b;
  };
  std::nth_element(anchors.begin(), anchors.begin() + count, anchors.end(), earlier);
  anchors.resize(count);
  std::sort(anchors.begin(), anchors.end());
}

}  // namespace draftsmith
