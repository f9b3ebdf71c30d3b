#include "train/evaluation.h"

#include <algorithm>

namespace draftsmith {

EvaluationPlan::EvaluationPlan(const Corpus& corpus, std::int64_t conversations, const BatchBudget& budget)
    : corpus_(corpus), anchors_(std::min(conversations, corpus.size())) {
  std::int64_t tokens_left = 0, blocks_left = 0;
  for (std::int64_t document = 0; document < documents(); ++document) {
    const auto loss_mask = corpus[document].loss_mask;
    std::vector<std::int32_t>& anchors = anchors_[document];
    for (std::int64_t p = 0; p < std::ssize(loss_mask); ++p) {
      if (valid_anchor(loss_mask, p)) anchors.push_back(static_cast<std::int32_t>(p));
    }
    for (std::int64_t first = 0; first < std::ssize(anchors); first += budget.blocks) {
      const std::int64_t count = std::min(budget.blocks, std::ssize(anchors) - first);
      if (pieces_.empty() || std::ssize(loss_mask) > tokens_left || count > blocks_left) {
        pieces_.emplace_back();
        tokens_left = budget.context_tokens;
        blocks_left = budget.blocks;
      }
      pieces_.back().push_back({.document = document, .first = first, .count = count});
      tokens_left -= std::ssize(loss_mask);
      blocks_left -= count;
    }
  }
}

BatchFacts EvaluationPlan::pack(MicroBatchBuilder& builder, std::int64_t micro_batch,
                                const MicroBatch& batch) const {
  BatchFacts facts;
  builder.begin(batch);
  if (micro_batch < micro_batches()) {
    for (const Piece& piece : pieces(micro_batch)) {
      const DocumentView document = corpus_[piece.document];
      builder.add_document(document.ids, document.loss_mask, anchors(piece));
      facts.add_work(std::ssize(document.ids), anchors(piece));
    }
  }
  facts.counts = builder.finish();
  return facts;
}

Walk walk_document(std::span<const std::uint8_t> loss_mask, std::span<const std::int32_t> runs) {
  Walk walk;
  const std::int64_t length = std::ssize(loss_mask);
  for (std::int64_t begin = 0; begin < length; ++begin) {
    if (!loss_mask[begin]) continue;
    std::int64_t last = begin;  // of this answer: its end token, or where it was cut
    while (last + 1 < length && loss_mask[last + 1]) ++last;
    for (std::int64_t p = begin; p < last; p += runs[p] + 1) {
      ++walk.cycles;
      walk.committed += std::min<std::int64_t>(runs[p] + 1, last - p);
    }
    begin = last;
  }
  return walk;
}

EvaluationTally::EvaluationTally(const EvaluationPlan& plan, LossKind loss, std::int64_t block_size)
    : plan_(plan), loss_(loss), block_size_(block_size), sums_(LossSums::size(block_size)) {
  for (std::int64_t document = 0; document < plan.documents(); ++document) {
    runs_.emplace_back(plan.corpus()[document].ids.size());
  }
}

void EvaluationTally::begin() { std::fill(sums_.begin(), sums_.end(), 0.0); }

void EvaluationTally::add(std::int64_t micro_batch, const Slot& slot) {
  for (std::size_t i = 0; i < sums_.size(); ++i) sums_[i] += slot.sums[static_cast<std::int64_t>(i)];
  block_runs_.assign(slot.facts.counts.blocks, 0);
  const MicroBatch& batch = slot.batch;
  for (std::int64_t row = 0; row < batch.loss_index.size; ++row) {
    if (batch.loss_index[row] < 0) continue;
    // Rows of a block ascend by offset: a run goes on where the offset is the next one.
    std::int32_t& run = block_runs_[batch.loss_blocks[row]];
    const bool correct = slot.predictions[row] == batch.loss_labels[row];
    if (correct && batch.loss_offsets[row] == run + 1) ++run;
  }
  std::int64_t block = 0;
  for (const EvaluationPlan::Piece& piece : plan_.pieces(micro_batch)) {
    for (const std::int32_t anchor : plan_.anchors(piece))
      runs_[piece.document][anchor] = block_runs_[block++];
  }
}

EvaluationRecord EvaluationTally::result() const {
  Walk total;
  for (std::int64_t document = 0; document < plan_.documents(); ++document) {
    const Walk walk = walk_document(plan_.corpus()[document].loss_mask, runs_[document]);
    total.cycles += walk.cycles;
    total.committed += walk.committed;
  }
  const double denominator =
      loss_ == LossKind::dflash ? sums_[LossSums::kDenominator] : static_cast<double>(plan_.documents());
  EvaluationRecord record;
  record.loss = sums_[LossSums::kNumerator] / denominator;
  record.accuracy_by_offset = hits_by_offset(sums_, block_size_);
  record.acceptance = static_cast<double>(total.committed) / static_cast<double>(total.cycles);
  record.conversations = plan_.documents();
  return record;
}

OffsetShares hits_by_offset(std::span<const double> sums, std::int64_t block_size) {
  OffsetShares shares;
  shares.count = block_size - 1;
  for (std::int64_t offset = 1; offset < block_size; ++offset) {
    shares.values[offset - 1] = sums[LossSums::hits(offset)] / sums[LossSums::counts(offset, block_size)];
  }
  return shares;
}

}  // namespace draftsmith
