#include "train/feeder.h"

namespace draftsmith {

void Feeder::run(const SequencePlan& plan, SlotRing& ring, const PipelineHooks& hooks) {
  const AddTime total(times_.total_s);
  SequenceCursor cursor(plan);
  while (const auto item = cursor.next()) {
    Slot* const slot =
        waiting(times_, WaitFor::free_slot, [&] { return ring.wait(item->index, SlotState::free); });
    if (slot == nullptr) return;
    slot->facts = item->kind == SequenceItem::Kind::training
                      ? packer_.next(slot->batch)
                      : evaluation_->pack(evaluation_builder_, item->part, slot->batch);
    hooks(PipelinePoint::packed, item->index, slot);
    ring.advance(item->index, SlotState::packed);
  }
}

}  // namespace draftsmith
