#include "train/device_thread.h"

#include "base/heap.h"
#include "kernels/tables.h"
#include "train/rates.h"
#include "train/schedule.h"
#include "train/useful_flops.h"

namespace draftsmith {

const char* DeviceRoles::text() const {
  if (target && drafter) return "target and drafter";
  return target ? "target" : "drafter";
}

template <typename T>
DeviceThread<T>::DeviceThread(const Device& device, const DeviceRoles& roles, const RunShapes& shapes,
                              const TrainConfig& train)
    : device_(device),
      roles_(roles),
      shapes_(shapes),
      optimizer_(train.optimizer),
      accumulate_(train.accumulate),
      idle_(device_, accumulate_),
      times_{.name = device.name.text()} {
  const Kernels<T>& kernels = kernels_of<T>(device_);
  if (roles.target) target_.emplace(device_, kernels, shapes);
  if (roles.drafter) {
    drafter_.emplace(device_, kernels,
                     DrafterSettings{.shapes = shapes,
                                     .optimizer = train.optimizer,
                                     .seed = static_cast<std::uint64_t>(train.seed),
                                     .accumulate = train.accumulate,
                                     .rank = *roles.drafter,
                                     .drafters = roles.drafters});
  }
}

template <typename T>
void DeviceThread<T>::lay_out(Carver& carver, Carver& shared) {
  if (target_) target_->carve(carver);
  if (drafter_) drafter_->carve(carver, shared, target_ ? &target_->tables() : nullptr);
}

template <typename T>
void DeviceThread<T>::measure(Preparation preparation, ProductChoices& choices) {
  Carver views, shared_views;
  lay_out(views, shared_views);
  if (target_) target_->measure(preparation, choices);
  if (drafter_) drafter_->measure(preparation, choices);
  measured_ = Carver();
  measured_shared_ = Carver();
  lay_out(measured_, measured_shared_);  // with the scratch that the launches turned out to need
}

template <typename T>
void DeviceThread<T>::carve() {
  arena_ = Arena(device_, measured_.peak());
  shared_ = Buffer::pinned(measured_shared_.peak());
  Carver carver = arena_.carver(), shared(shared_.data(), shared_.bytes());
  lay_out(carver, shared);
}

template <typename T>
void DeviceThread<T>::load(const std::filesystem::path& target_folder) {
  if (target_) target_->load(target_folder);
  if (drafter_) drafter_->load(target_folder);
}

template <typename T>
void DeviceThread<T>::restore(const TrainedState& state, const StepCounters& counters) {
  if (drafter_) drafter_->restore(state, counters.updates);
  counters_ = counters;
}

template <typename T>
void DeviceThread<T>::warm_up(Slot& slot) {
  attach_thread(device_);
  if (target_) target_->warm_up(slot);
  if (drafter_) drafter_->warm_up(slot);
  product_rate_ = drafter_ ? drafter_->product_rate() : target_->product_rate();
  if (target_) copy_rates_.to_slot = target_->copy_rate(slot);
  if (drafter_) copy_rates_.from_slot = drafter_->copy_rate(slot);
}

template <typename T>
template <typename Lines>
std::vector<std::string> DeviceThread<T>::lines_of_libraries(Lines lines_of) {
  std::vector<std::string> lines;
  const auto append = [&](auto& worker) {
    if (!worker) return;
    for (const std::string& line : lines_of(worker->launcher().library())) lines.push_back(line);
  };
  append(target_);
  append(drafter_);
  return lines;
}

template <typename T>
std::vector<std::string> DeviceThread<T>::attention_paths() {
  return lines_of_libraries([](const MatmulLibrary& library) { return library.notes(); });
}

template <typename T>
std::vector<std::string> DeviceThread<T>::describe_products() {
  return lines_of_libraries([](const MatmulLibrary& library) { return library.describe(); });
}

template <typename T>
bool DeviceThread<T>::exchange_nothing(Collective& collective) {
  if (!drafter_) return true;
  for (std::int64_t segment = 0; segment < drafter_->backward_segments(); ++segment) {
    if (!exchange_completed(collective, segment)) return false;
  }
  if (!collective.reduce_sums(*roles_.drafter, drafter_->launcher().stream())) return false;
  if (!collective.finish(*roles_.drafter, drafter_->launcher().stream()) || !gather(collective)) return false;
  synchronize(drafter_->launcher().stream());
  if (collective.cancelled()) return false;
  collective.take_exposed_s(*roles_.drafter);  // of set-up: not the run's
  return true;
}

template <typename T>
double DeviceThread<T>::time_target(Slot& slot) {
  attach_thread(device_);
  return median_s([&] { target_->fill(slot); });
}

template <typename T>
double DeviceThread<T>::time_drafter(const Slot& slot, Collective& collective) {
  attach_thread(device_);
  drafter_->stage(slot);
  return median_s([&] { repeat_step(slot, collective); }) / static_cast<double>(accumulate_);
}

// A step whose micro-batches are all the one that is staged.
template <typename T>
bool DeviceThread<T>::repeat_step(const Slot& slot, Collective& collective) {
  constexpr double kLearningRate = 0;
  drafter_->begin_step();
  for (std::int64_t part = 0; part < accumulate_; ++part) {
    drafter_->forward(part, accumulate_);
    if (!backward({.ends_step = part + 1 == accumulate_}, collective)) return false;
    drafter_->stage(slot);  // for the next
  }
  return exchange_and_update(kLearningRate, collective);
}

template <typename T>
void DeviceThread<T>::run(const PipelineLinks& links) {
  const NoHeapRegion no_heap;
  const AddTime total(times_.total_s);
  began_ = std::chrono::steady_clock::now();
  SequenceCursor cursor(links.plan);
  while (const auto item = cursor.next()) {
    if (!work_on(*item, links)) return;
  }
}

template <typename T>
bool DeviceThread<T>::work_on(const SequenceItem& item, const PipelineLinks& links) {
  if (roles_.makes(item.index) && !make(item, links)) return false;
  if (!drafter_) return true;
  if (roles_.trains_on(item.index) && !take(item, links)) return false;
  const bool all_have_taken_one = item.part + 1 == roles_.drafters;
  if (to_finish_ && all_have_taken_one && !finish_step(links)) return false;
  if (taken_ && !to_finish_ && !train(links)) return false;
  if (item.kind != SequenceItem::Kind::training || !item.last) return true;
  to_finish_ = item;
  return links.plan.training_follows(item.step) || finish_step(links);
}

// The target's work on one micro-batch.
template <typename T>
bool DeviceThread<T>::make(const SequenceItem& item, const PipelineLinks& links) {
  Slot* const slot =
      waiting(times_, WaitFor::packed_slot, [&] { return links.ring.wait(item.index, SlotState::packed); });
  if (slot == nullptr) return false;
  links.hooks(PipelinePoint::target_pass, item.index, slot);
  if (slot->facts.counts.documents > 0) {
    target_->fill(*slot);
    work_.target_flops += useful_target_flops(shapes_.target, shapes_.target_layers(), slot->facts);
  }
  links.hooks(PipelinePoint::features_filled, item.index, slot);
  links.ring.advance(item.index, SlotState::filled);
  return true;
}

// Of the wait counts only what the device idled: launches of the step before may still run.
template <typename T>
Slot* DeviceThread<T>::await_features(const SequenceItem& item, const PipelineLinks& links) {
  const auto wait = [&] {
    links.hooks(PipelinePoint::awaits_features, item.index);
    return links.ring.wait(item.index, SlotState::filled);
  };
  if (!launched_) return waiting(times_, WaitFor::filled_slot, wait);
  times_.activity.wait(WaitFor::filled_slot);
  Slot* const slot = idle_.around(drafter_->launcher().stream(), wait);
  times_.activity.work();
  return slot;
}

// The drafter takes a micro-batch. A slot of training is handed back as soon as it is copied; one of an evaluation is
// worked on at once.
template <typename T>
bool DeviceThread<T>::take(const SequenceItem& item, const PipelineLinks& links) {
  Slot* const slot = await_features(item, links);
  if (slot == nullptr) return false;
  if (!times_.first_features) {
    const std::chrono::duration<double> after = std::chrono::steady_clock::now() - began_;
    times_.first_features = Stretch{.total_s = after.count(), .waits_s = times_.waits_s};
  }
  links.hooks(PipelinePoint::drafter_pass, item.index, slot);
  if (slot->facts.counts.documents > 0) drafter_->stage(*slot);
  if (item.kind == SequenceItem::Kind::evaluation) {
    if (slot->facts.counts.documents > 0) {
      drafter_->evaluate(*slot);
      work_.drafter_flops += useful_evaluation_flops(shapes_.drafter, slot->facts);
    }
    links.ring.advance(item.index, SlotState::predicted);
  } else {
    taken_ = {.item = item, .facts = slot->facts};
    links.ring.advance(item.index, SlotState::free);
  }
  return true;
}

// Launches the work on the micro-batch that was taken, and behind the last of a step the exchange.
template <typename T>
bool DeviceThread<T>::train(const PipelineLinks& links) {
  const SequencePlan& plan = links.plan;
  const auto [item, facts] = *taken_;
  taken_.reset();
  const bool first_of_step = item.part < roles_.drafters;
  const bool last_of_step = item.part + roles_.drafters >= plan.step_micro_batches;
  if (first_of_step) drafter_->begin_step();
  if (first_of_step && *roles_.drafter == 0) links.leader.step_begins();
  launched_ = true;
  count(item, facts);
  const bool empty = facts.counts.documents == 0;
  if (!empty) {
    drafter_->forward((item.step - 1) * plan.step_micro_batches + item.part,
                      plan.last_step * plan.step_micro_batches);
  }
  return backward({.ends_step = last_of_step, .empty = empty}, links.collective);
}

template <typename T>
bool DeviceThread<T>::backward(const BackwardOf& batch, Collective& collective) {
  if (batch.empty && batch.ends_step) drafter_->skip_backward();
  for (std::int64_t segment = 0; segment < drafter_->backward_segments(); ++segment) {
    if (!batch.empty) drafter_->backward_segment(segment);
    if (batch.ends_step && !exchange_completed(collective, segment)) return false;
  }
  return true;
}

template <typename T>
bool DeviceThread<T>::exchange_completed(Collective& collective, std::int64_t segment) {
  for (const ExchangeRange& range : drafter_->complete_after(segment)) {
    if (!collective.reduce_gradient(*roles_.drafter, range, drafter_->launcher().stream())) return false;
  }
  return true;
}

// The weights that each drafter has updated, where the optimizer is sharded; launches that follow find them.
template <typename T>
bool DeviceThread<T>::gather(Collective& collective) {
  const std::vector<ExchangeRange>& parts = drafter_->weight_parts();
  const Stream& stream = drafter_->launcher().stream();
  return parts.empty() || (collective.gather_weights(*roles_.drafter, parts, stream) &&
                           collective.finish(*roles_.drafter, stream));
}

template <typename T>
void DeviceThread<T>::count(const SequenceItem& item, const BatchFacts& facts) {
  drafter_->count(HostSum::documents_with_blocks, static_cast<double>(facts.counts.documents_with_blocks));
  drafter_->count(HostSum::context_tokens, static_cast<double>(facts.counts.context_tokens));
  drafter_->count(HostSum::blocks, static_cast<double>(facts.counts.blocks));
  drafter_->count(HostSum::supervised_tokens, static_cast<double>(facts.supervised_tokens));
  drafter_->count(HostSum::covered_tokens, static_cast<double>(facts.covered_tokens));
  if (item.last) {
    drafter_->count(HostSum::epoch_after, static_cast<double>(facts.after.epoch));
    drafter_->count(HostSum::place_after, static_cast<double>(facts.after.place));
  }
  work_.drafter_flops += useful_drafter_flops(shapes_.drafter, facts);
  work_.tokens += facts.counts.context_tokens;
  work_.blocks += facts.counts.blocks;
}

// The rest of the exchange, and the update, of a step whose micro-batches are all launched.
template <typename T>
bool DeviceThread<T>::finish_step(const PipelineLinks& links) {
  const SequenceItem last = *to_finish_;
  to_finish_.reset();
  links.hooks(PipelinePoint::exchange, last.step);
  drafter_->count(HostSum::stop_requests, links.stop_signal != 0 ? 1 : 0);
  const auto outcome = update(last.step, links);
  if (!outcome) return false;
  ++work_.steps;
  const bool leads = *roles_.drafter == 0;
  if (leads) links.leader.step_done(*outcome, drafter_->share_of_norms_at_one(), times_);
  if (leads || !drafter_->weight_parts().empty()) {
    const bool offered = links.leader.offer_snapshot(
        *roles_.drafter, *outcome, times_,
        [&](const TrainedState& to) { copy_state(drafter_->launcher().stream(), drafter_->state(), to); });
    if (!offered) return false;
  }
  if (leads && outcome->stopping) links.ring.end_at(last.index + 1);
  return !outcome->stopping;
}

// False when cancelled. The device's own work is no wait; what the exchange adds to it is.
template <typename T>
bool DeviceThread<T>::exchange_and_update(double rate, Collective& collective) {
  const std::int64_t rank = *roles_.drafter;
  drafter_->send_counted();
  if (!collective.reduce_sums(rank, drafter_->launcher().stream())) return false;
  if (roles_.drafters > 1) times_.activity.wait(WaitFor::exchange);
  if (!collective.finish(rank, drafter_->launcher().stream())) return false;
  drafter_->update(rate);
  launched_ = false;
  if (collective.cancelled()) return false;
  times_.waits_s[static_cast<std::size_t>(WaitFor::exchange)] += collective.take_exposed_s(rank);
  times_.waits_s[static_cast<std::size_t>(WaitFor::filled_slot)] += idle_.take_s();
  if (!gather(collective)) return false;
  times_.activity.work();
  return true;
}

// Nothing when cancelled.
template <typename T>
std::optional<StepOutcome> DeviceThread<T>::update(std::int64_t step, const PipelineLinks& links) {
  const double rate = learning_rate(optimizer_, step, links.plan.last_step);
  if (!exchange_and_update(rate, links.collective)) return std::nullopt;
  StepOutcome outcome{.step = step,
                      .learning_rate = rate,
                      .denominator = drafter_->denominator(),
                      .sums = drafter_->sums(),
                      .update = drafter_->update_state()};
  // A step in which nothing is supervised changes nothing, and nothing is wrong with it.
  outcome.skipped = !outcome.update.applied && outcome.denominator != 0;
  counters_.updates = outcome.update.updates;
  counters_.skipped += outcome.skipped ? 1 : 0;
  counters_.skipped_in_a_row = outcome.skipped ? counters_.skipped_in_a_row + 1 : 0;
  outcome.counters = counters_;
  outcome.stopping = drafter_->host_sum(HostSum::stop_requests) > 0;
  return outcome;
}

template class DeviceThread<float>;
template class DeviceThread<bf16>;

}  // namespace draftsmith
