// Evaluation during training: the teacher-forced walk. Every position of an answer that can be an anchor gets
// a block; what the drafter would have proposed there is compared with the answer itself, which is the
// target's own greedy output; then each answer is walked as serving would:
//   at anchor p, the leading correct run a is accepted and the bonus token committed: p += a + 1
// Acceptance is the committed tokens over the cycles, summed over all conversations (docs/dflash.md,
// "Acceptance"). The first token of an answer comes from prefill and is not counted; a cycle that the answer's end
// cuts counts up to and including it. An unsupervised token ends a run.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/corpus.h"
#include "kernels/block_loss.h"
#include "metrics/record.h"
#include "model/micro_batch.h"
#include "train/slots.h"

namespace draftsmith {

// Which anchors each evaluation micro-batch holds. Constant after construction.
class EvaluationPlan {
 public:
  // A document's anchors, or a part of them where the budget of blocks is too small for all.
  struct Piece {
    std::int64_t document = 0;
    std::int64_t first = 0;  // in the document's anchors
    std::int64_t count = 0;
  };

  // The first `conversations` documents, next-fit.
  EvaluationPlan(const Corpus& corpus, std::int64_t conversations, const BatchBudget& budget);

  const Corpus& corpus() const { return corpus_; }
  std::int64_t documents() const { return static_cast<std::int64_t>(anchors_.size()); }
  std::int64_t micro_batches() const { return static_cast<std::int64_t>(pieces_.size()); }
  std::span<const Piece> pieces(std::int64_t micro_batch) const { return pieces_[micro_batch]; }
  std::span<const std::int32_t> anchors(const Piece& piece) const {
    return std::span(anchors_[piece.document]).subspan(piece.first, piece.count);
  }

  // Writes micro-batch `micro_batch`; one past the last is empty: padding.
  BatchFacts pack(MicroBatchBuilder& builder, std::int64_t micro_batch, const MicroBatch& batch) const;

 private:
  const Corpus& corpus_;
  std::vector<std::vector<std::int32_t>> anchors_;  // [documents]: all that are valid, ascending
  std::vector<std::vector<Piece>> pieces_;          // [micro-batches]
};

struct Walk {
  std::int64_t cycles = 0;
  std::int64_t committed = 0;  // tokens
};
// runs[p] is the leading correct run at anchor p, for every valid anchor.
Walk walk_document(std::span<const std::uint8_t> loss_mask, std::span<const std::int32_t> runs);

// Collects the predictions of one evaluation after another. Collector thread only.
class EvaluationTally {
 public:
  EvaluationTally(const EvaluationPlan& plan, LossKind loss, std::int64_t block_size);

  void begin();
  // A predicted slot; micro-batches may come in any order.
  void add(std::int64_t micro_batch, const Slot& slot);
  // After the last. Step, seconds are the caller's.
  EvaluationRecord result() const;

 private:
  const EvaluationPlan& plan_;
  const LossKind loss_;
  const std::int64_t block_size_;
  std::vector<std::vector<std::int32_t>> runs_;  // [documents][tokens]
  std::vector<std::int32_t> block_runs_;         // [blocks], of one micro-batch
  std::vector<double> sums_;                     // [LossSums::size]
};

// Shares of correct slots at offsets 1 .. block_size - 1, from sums of the loss.
OffsetShares hits_by_offset(std::span<const double> sums, std::int64_t block_size);

}  // namespace draftsmith
