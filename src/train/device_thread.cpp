#include "train/device_thread.h"

#include "base/heap.h"
#include "device/stream.h"
#include "kernels/tables.h"
#include "train/product_rate.h"
#include "train/schedule.h"
#include "train/useful_flops.h"

namespace draftsmith {

template <typename T>
DeviceThread<T>::DeviceThread(const Device& device, const DeviceRoles& roles, const RunShapes& shapes,
                              const OptimizerConfig& optimizer, std::uint64_t seed)
    : device_(device),
      roles_(roles),
      shapes_(shapes),
      optimizer_(optimizer),
      launch_(device_, kernels_of<T>(device_)),
      times_{.name = device.name.text()} {
  if (roles.target) target_.emplace(shapes);
  if (roles.drafter) drafter_.emplace(shapes, optimizer, seed);
}

template <typename T>
void DeviceThread<T>::lay_out(Carver& carver, Carver& shared) {
  if (target_) target_->carve(carver);
  if (drafter_) drafter_->carve(carver, shared, target_ ? &target_->tables() : nullptr);
  carver.purpose("product scratch");
  launch_.library().set_scratch(carver.vector<std::byte>(launch_.library().scratch_bytes()));
}

template <typename T>
void DeviceThread<T>::measure(ProductChoices& choices) {
  MatmulLibrary& library = launch_.library();
  library.use(choices.of(kernels_of<T>(device_).product_facts(device_), device_.name.text()),
              choices.place());
  Carver views, shared_views;
  lay_out(views, shared_views);
  launch_.set_mode(LaunchMode::measure);
  if (target_) target_->forward(launch_);
  if (drafter_) drafter_->measure(launch_);
  launch_.set_mode(LaunchMode::run);
  choices.add(library.choices());
  measured_ = Carver();
  measured_shared_ = Carver();
  lay_out(measured_, measured_shared_);  // with the scratch that the products turned out to need
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
  if (target_) target_->load(launch_.stream(), target_folder);
  if (drafter_) drafter_->load(launch_.stream(), target_folder);
}

template <typename T>
void DeviceThread<T>::restore(const TrainedState& state, const StepCounters& counters) {
  if (drafter_) drafter_->restore(launch_.stream(), state, counters.updates);
  counters_ = counters;
}

template <typename T>
void DeviceThread<T>::warm_up(Slot& slot) {
  attach_thread(device_);
  if (target_) target_->fill(launch_, slot);
  if (drafter_) {
    drafter_->load_batch(launch_.stream(), slot);
    drafter_->train(launch_);
    drafter_->begin_step(launch_);
  }
  product_rate_ =
      measure_product_rate(launch_, drafter_ ? drafter_->largest_product() : target_->largest_product());
}

template <typename T>
bool DeviceThread<T>::exchange_nothing(LocalCollective& collective) {
  return !drafter_ || collective.all_reduce(*roles_.drafter);
}

template <typename T>
void DeviceThread<T>::run(const PipelineLinks& links) {
  const NoHeapRegion no_heap;
  const AddTime total(times_.total_s);
  SequenceCursor cursor(links.plan);
  while (const auto item = cursor.next()) {
    if (roles_.makes(item->index) && !make(*item, links)) return;
    if (roles_.trains_on(item->index) && !take(*item, links)) return;
    const bool ends_step = item->kind == SequenceItem::Kind::training && item->last;
    if (ends_step && drafter_ && !finish_step(*item, links)) return;
  }
}

// The target's work on one micro-batch. False when the run ends here.
template <typename T>
bool DeviceThread<T>::make(const SequenceItem& item, const PipelineLinks& links) {
  Slot* const slot =
      waiting(times_, WaitFor::packed_slot, [&] { return links.ring.wait(item.index, SlotState::packed); });
  if (slot == nullptr) return false;
  links.hooks(PipelinePoint::target_pass, item.index, slot);
  if (slot->facts.counts.documents > 0) {
    target_->fill(launch_, *slot);
    work_.target_flops += useful_target_flops(shapes_.target, shapes_.target_layers(), slot->facts);
  }
  links.hooks(PipelinePoint::features_filled, item.index, slot);
  links.ring.advance(item.index, SlotState::filled);
  return true;
}

// The drafter's work on one micro-batch. A slot of training is handed back as soon as it is copied.
template <typename T>
bool DeviceThread<T>::take(const SequenceItem& item, const PipelineLinks& links) {
  const bool first_of_step = item.kind == SequenceItem::Kind::training && item.part < roles_.drafters;
  if (first_of_step) drafter_->begin_step(launch_);
  Slot* const slot =
      waiting(times_, WaitFor::filled_slot, [&] { return links.ring.wait(item.index, SlotState::filled); });
  if (slot == nullptr) return false;
  links.hooks(PipelinePoint::drafter_pass, item.index, slot);
  if (item.kind == SequenceItem::Kind::evaluation) return evaluate(item, *slot, links);
  const bool empty = slot->facts.counts.documents == 0;
  if (!empty) drafter_->load_batch(launch_.stream(), *slot);
  count(item, slot->facts);
  links.ring.advance(item.index, SlotState::free);
  if (empty) return true;
  const SequencePlan& plan = links.plan;
  drafter_->add_noise(launch_, (item.step - 1) * plan.step_micro_batches + item.part,
                      plan.last_step * plan.step_micro_batches);
  drafter_->train(launch_);
  return true;
}

template <typename T>
bool DeviceThread<T>::evaluate(const SequenceItem& item, Slot& slot, const PipelineLinks& links) {
  if (slot.facts.counts.documents > 0) {
    drafter_->load_batch(launch_.stream(), slot);
    drafter_->evaluate(launch_, slot);
  }
  links.ring.advance(item.index, SlotState::predicted);
  return true;
}

template <typename T>
void DeviceThread<T>::count(const SequenceItem& item, const BatchFacts& facts) {
  drafter_->add_host_sum(HostSum::documents_with_blocks,
                         static_cast<double>(facts.counts.documents_with_blocks));
  drafter_->add_host_sum(HostSum::context_tokens, static_cast<double>(facts.counts.context_tokens));
  drafter_->add_host_sum(HostSum::blocks, static_cast<double>(facts.counts.blocks));
  drafter_->add_host_sum(HostSum::supervised_tokens, static_cast<double>(facts.supervised_tokens));
  drafter_->add_host_sum(HostSum::covered_tokens, static_cast<double>(facts.covered_tokens));
  if (item.last) {
    drafter_->add_host_sum(HostSum::epoch_after, static_cast<double>(facts.after.epoch));
    drafter_->add_host_sum(HostSum::place_after, static_cast<double>(facts.after.place));
  }
  work_.drafter_flops += useful_drafter_flops(shapes_.drafter, facts);
  work_.tokens += facts.counts.context_tokens;
  work_.blocks += facts.counts.blocks;
}

// Exchange and update after the last micro-batch of a step. False when the run ends here.
template <typename T>
bool DeviceThread<T>::finish_step(const SequenceItem& item, const PipelineLinks& links) {
  links.hooks(PipelinePoint::exchange, item.step);
  drafter_->add_host_sum(HostSum::stop_requests, links.stop_signal != 0 ? 1 : 0);
  const bool exchanged =
      waiting(times_, WaitFor::exchange, [&] { return links.collective.all_reduce(*roles_.drafter); });
  if (!exchanged) return false;
  const StepOutcome outcome = update(item, links);
  ++work_.steps;
  if (*roles_.drafter == 0) {
    links.leader.step_done(outcome, drafter_->share_of_norms_at_one(launch_.stream()));
    const bool offered = links.leader.offer_snapshot(outcome, times_, [&](const TrainedState& staging) {
      copy_state(launch_.stream(), drafter_->state(), staging);
    });
    if (!offered) return false;
    if (outcome.stopping) links.ring.end_at(item.index + 1);
  }
  return !outcome.stopping;
}

template <typename T>
StepOutcome DeviceThread<T>::update(const SequenceItem& item, const PipelineLinks& links) {
  synchronize(launch_.stream());  // the sums are the host's to read
  StepOutcome outcome{.step = item.step,
                      .learning_rate = learning_rate(optimizer_, item.step, links.plan.last_step),
                      .denominator = drafter_->denominator(),
                      .sums = drafter_->sums()};
  drafter_->update(launch_, outcome.learning_rate);
  outcome.update = drafter_->state().update[0];
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
