// What is measured of a training step and of an evaluation. Plain structs of fixed size: handing one to the
// log takes no heap. The two visit functions are the one list of their names in metrics.jsonl.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

namespace draftsmith {

// A share for each supervised offset of a draft block: entry 0 is offset 1.
struct OffsetShares {
  static constexpr std::int64_t kMost = 31;  // a block has at most 32 slots, and offset 0 is the anchor
  std::array<double, kMost> values{};
  std::int64_t count = 0;
};

inline constexpr double kNotMeasured = std::numeric_limits<double>::quiet_NaN();

// Sums over all devices and micro-batches of the step.
struct StepRecord {
  std::int64_t step = 0;  // from 1
  std::int64_t epoch = 0;
  double loss = kNotMeasured;
  double accuracy = kNotMeasured;    // share of supervised slots whose argmax is the label
  double acceptance = kNotMeasured;  // mean leading correct run of a block, plus 1: an estimate
  OffsetShares accuracy_by_offset;
  double learning_rate = kNotMeasured;
  double gradient_norm = kNotMeasured;      // before clipping
  std::int64_t tokens = 0;                  // of context
  std::int64_t blocks = 0;                  // with an anchor
  double coverage = kNotMeasured;           // share of supervised tokens that some block of the step predicts
  double norms_at_one = kNotMeasured;       // share of norm weights that are exactly 1
  double tokens_per_second = kNotMeasured;  // from the step's first micro-batch to its update
  double blocks_per_second = kNotMeasured;
  std::int64_t queue_filled = 0;  // slots that waited for a drafter when the step was done
  std::int64_t queue_slots = 0;
  bool skipped = false;            // loss or gradient was not finite: no update was made
  std::int64_t skipped_steps = 0;  // of the whole run so far
  double wall_s = kNotMeasured;    // since training began, earlier parts of a resumed run included
};

struct EvaluationRecord {
  std::int64_t step = 0;  // after this many updates
  double loss = kNotMeasured;
  OffsetShares accuracy_by_offset;
  double acceptance = kNotMeasured;  // tokens committed by draft cycles / cycles, over all conversations
  std::int64_t conversations = 0;
  double seconds = kNotMeasured;  // from the end of the step, target and drafter included
};

// Calls visit(name, member) for every member in turn. Record is the struct, const or not.
template <typename Record, typename Visit>
void visit_step_fields(Record& record, Visit&& visit) {
  visit("step", record.step);
  visit("epoch", record.epoch);
  visit("loss", record.loss);
  visit("accuracy", record.accuracy);
  visit("acceptance", record.acceptance);
  visit("accuracy_by_offset", record.accuracy_by_offset);
  visit("learning_rate", record.learning_rate);
  visit("gradient_norm", record.gradient_norm);
  visit("tokens", record.tokens);
  visit("blocks", record.blocks);
  visit("coverage", record.coverage);
  visit("norms_at_one", record.norms_at_one);
  visit("tokens_per_second", record.tokens_per_second);
  visit("blocks_per_second", record.blocks_per_second);
  visit("queue_filled", record.queue_filled);
  visit("queue_slots", record.queue_slots);
  visit("skipped", record.skipped);
  visit("skipped_steps", record.skipped_steps);
  visit("wall_s", record.wall_s);
}

template <typename Record, typename Visit>
void visit_evaluation_fields(Record& record, Visit&& visit) {
  visit("step", record.step);
  visit("loss", record.loss);
  visit("accuracy_by_offset", record.accuracy_by_offset);
  visit("acceptance", record.acceptance);
  visit("conversations", record.conversations);
  visit("seconds", record.seconds);
}

}  // namespace draftsmith
