// The one order of all work. Micro-batches have numbers 0, 1, 2, …; each belongs to a training step or to the
// evaluation after a step, and its number alone says which: a pure function of a few numbers that every
// thread walks for itself, so that nobody has to be told.
//
//   step 1 | step 2 | … | step s | evaluation after s | step s + 1 | …
//
// A step is the next drafters * accumulate micro-batches. An evaluation is padded with empty micro-batches to
// a multiple of the drafters, so every drafter finds its own share of every step at number i mod drafters.
#pragma once

#include <cstdint>
#include <optional>

namespace draftsmith {

struct SequencePlan {
  std::int64_t first_step = 1;                // steps count from 1; a resumed run begins later
  std::int64_t last_step = 0;                 // of the whole run
  std::int64_t step_micro_batches = 1;        // drafters * accumulate
  std::int64_t evaluation_every = 0;          // steps; 0: only after the last
  std::int64_t evaluation_micro_batches = 0;  // with padding; 0: no evaluation at all
  bool evaluate_first = false;                // a resumed run owes the evaluation after step first_step - 1

  bool evaluates_after(std::int64_t step) const;
  // Whether the next micro-batch after the step is one of training.
  bool training_follows(std::int64_t step) const;
  // Of the whole sequence.
  std::int64_t micro_batches() const;
};

struct SequenceItem {
  enum class Kind { training, evaluation };
  Kind kind = Kind::training;
  std::int64_t index = 0;  // of the micro-batch
  std::int64_t step = 0;   // the step it belongs to, or after which it evaluates
  std::int64_t part = 0;   // its place within the step or the evaluation
  bool first = false;      // of the step or the evaluation
  bool last = false;       // likewise
};

class SequenceCursor {
 public:
  explicit SequenceCursor(const SequencePlan& plan);

  // Nothing after the last micro-batch of the run.
  std::optional<SequenceItem> next();

 private:
  const SequencePlan plan_;
  SequenceItem item_;  // the one that next() gives
};

}  // namespace draftsmith
