#include "train/sequence.h"

namespace draftsmith {

bool SequencePlan::evaluates_after(std::int64_t step) const {
  if (evaluation_micro_batches == 0) return false;
  return step == last_step || (evaluation_every > 0 && step > 0 && step % evaluation_every == 0);
}

bool SequencePlan::training_follows(std::int64_t step) const {
  return step < last_step && !evaluates_after(step);
}

std::int64_t SequencePlan::micro_batches() const {
  std::int64_t count = evaluate_first ? evaluation_micro_batches : 0;
  for (std::int64_t step = first_step; step <= last_step; ++step) {
    count += step_micro_batches + (evaluates_after(step) ? evaluation_micro_batches : 0);
  }
  return count;
}

SequenceCursor::SequenceCursor(const SequencePlan& plan) : plan_(plan) {
  item_.kind = plan.evaluate_first ? SequenceItem::Kind::evaluation : SequenceItem::Kind::training;
  item_.step = plan.evaluate_first ? plan.first_step - 1 : plan.first_step;
}

std::optional<SequenceItem> SequenceCursor::next() {
  const bool evaluation = item_.kind == SequenceItem::Kind::evaluation;
  if (!evaluation && item_.step > plan_.last_step) return std::nullopt;
  SequenceItem current = item_;
  current.first = current.part == 0;
  current.last = current.part + 1 == (evaluation ? plan_.evaluation_micro_batches : plan_.step_micro_batches);
  ++item_.index;
  ++item_.part;
  if (current.last) {
    item_.part = 0;
    if (!evaluation && plan_.evaluates_after(current.step)) {
      item_.kind = SequenceItem::Kind::evaluation;
    } else {
      item_.kind = SequenceItem::Kind::training;
      item_.step = current.step + 1;
    }
  }
  return current;
}

}  // namespace draftsmith
