#include "train/collector.h"

namespace draftsmith {

void Collector::run(const SequencePlan& sequence, SlotRing& ring, Recorder& recorder,
                    CheckpointThread& checkpoints) {
  const AddTime total(times_.total_s);
  std::chrono::steady_clock::time_point began;
  SequenceCursor cursor(sequence);
  while (const auto item = cursor.next()) {
    if (item->kind != SequenceItem::Kind::evaluation) continue;
    Slot* const slot =
        waiting(times_, WaitFor::predictions, [&] { return ring.wait(item->index, SlotState::predicted); });
    if (slot == nullptr) return;
    hooks_(PipelinePoint::evaluated, item->index, slot);
    if (item->first) {
      const auto start = starts_.pop();
      if (!start) return;
      began = *start;
      tally_.begin();
    }
    if (item->part < plan_.micro_batches()) tally_.add(item->part, *slot);
    ring.advance(item->index, SlotState::free);
    if (!item->last) continue;
    EvaluationRecord record = tally_.result();
    record.step = item->step;
    record.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    waiting(times_, WaitFor::log, [&] { return recorder.record(record); });
    checkpoints.evaluated(record);
    last_ = record;
  }
}

}  // namespace draftsmith
