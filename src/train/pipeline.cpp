#include "train/pipeline.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/core.h>

#include "base/arithmetic.h"
#include "base/error.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/memory.h"
#include "train/initial_state.h"
#include "train/watchdog.h"

namespace draftsmith {
namespace {

SlotShape slot_shape(const RunShapes& shapes, std::int64_t element_bytes) {
  return {.budget = shapes.budget,
          .feature_row_bytes = shapes.drafter.feature_width() * element_bytes,
          .final_hidden_row_bytes = shapes.teacher_width() * element_bytes};
}

std::int64_t drafter_count(const PipelineInputs& inputs) {
  return std::ssize(inputs.config.devices.drafters);
}

// By rank.
template <typename T>
std::vector<Device> drafters_of(const std::vector<std::unique_ptr<DeviceThread<T>>>& threads) {
  std::vector<Device> drafters;
  for (std::int64_t rank = 0; rank < std::ssize(threads); ++rank) {
    for (const auto& thread : threads) {
      if (thread->roles().drafter == rank) drafters.push_back(thread->device());
    }
  }
  return drafters;
}

template <typename T>
std::vector<std::unique_ptr<DeviceThread<T>>> make_devices(const PipelineInputs& inputs) {
  std::vector<std::unique_ptr<DeviceThread<T>>> devices;
  for (const DeviceAssignment& one : assign_devices(inputs.config.devices)) {
    devices.push_back(
        std::make_unique<DeviceThread<T>>(one.device, one.roles, inputs.shapes, inputs.config.train));
  }
  check_exchange(drafters_of<T>(devices));
  return devices;
}

// Micro-batch i goes through slot i mod slots to drafter i mod drafters: where the drafters divide the slots, a slot
// belongs to one of them. Empty when features go through the host.
template <typename T>
std::vector<Device> homes_of_slots(const PipelineInputs& inputs,
                                   const std::vector<std::unique_ptr<DeviceThread<T>>>& threads) {
  const QueueConfig& queue = inputs.config.devices.queue;
  const std::vector<Device> drafters = drafters_of<T>(threads);
  const bool on_gpus = drafters.front().name.kind == DeviceKind::cuda;
  if (queue.path == QueuePath::host || (!queue.path && !on_gpus)) return {};
  std::string against;
  if (queue.slots % std::ssize(drafters) != 0) {
    against = fmt::format("{} slots do not divide among {} drafters", queue.slots, drafters.size());
  }
  for (const auto& target : threads) {
    for (const Device& drafter : drafters) {
      if (!target->roles().target || reaches(target->device(), drafter)) continue;
      against = fmt::format("{} does not reach {}", target->device().name.text(), drafter.name.text());
    }
  }
  if (!against.empty() && !queue.path) return {};
  if (!against.empty()) {
    throw Error(
        fmt::format("devices.queue.path: peer is not possible, since {}. Choose auto or host, or other "
                    "devices or slots",
                    against));
  }
  std::vector<Device> homes;
  for (std::int64_t slot = 0; slot < queue.slots; ++slot) homes.push_back(drafters[slot % drafters.size()]);
  return homes;
}

template <typename T>
std::vector<Device> devices_of(const std::vector<std::unique_ptr<DeviceThread<T>>>& threads) {
  std::vector<Device> devices;
  for (const auto& thread : threads) devices.push_back(thread->device());
  return devices;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(1e3 * seconds));
}

HeapCounts since(const HeapCounts& before) {
  HeapCounts counts = heap_counts();
  counts.ours -= before.ours;
  counts.library -= before.library;
  return counts;
}

}  // namespace

std::optional<EvaluationPlan> plan_evaluation(const PipelineInputs& inputs) {
  if (inputs.evaluation == nullptr) return std::nullopt;
  return EvaluationPlan(*inputs.evaluation, inputs.config.train.eval.conversations, inputs.shapes.budget);
}

SequencePlan plan_sequence(const PipelineInputs& inputs, const std::optional<EvaluationPlan>& evaluation,
                           const StartingPoint& start) {
  const std::int64_t drafters = drafter_count(inputs);
  return {.first_step = start.step + 1,
          .last_step = inputs.steps,
          .step_micro_batches = drafters * inputs.config.train.accumulate,
          .evaluation_every = inputs.config.train.eval.every,
          .evaluation_micro_batches = evaluation ? round_up(evaluation->micro_batches(), drafters) : 0,
          .evaluate_first = start.owes_evaluation};
}

template <typename T>
Pipeline<T>::Pipeline(const PipelineInputs& inputs)
    : inputs_(inputs),
      table_(drafter_weight_table(inputs.shapes.drafter)),
      evaluation_(plan_evaluation(inputs)),
      devices_(make_devices<T>(inputs)),
      homes_(homes_of_slots<T>(inputs, devices_)),
      gate_(std::ssize(devices_) + 1),
      memory_(devices_of<T>(devices_)) {}

template <typename T>
void Pipeline<T>::measure(Preparation preparation, ProductChoices& choices) {
  for (const auto& device : devices_) device->measure(preparation, choices);
}

template <typename T>
std::int64_t Pipeline<T>::slot_bytes() const {
  Carver count, features;
  for (std::int64_t slot = 0; slot < inputs_.config.devices.queue.slots; ++slot) {
    carve_slot(count, homes_.empty() ? count : features, slot_shape(inputs_.shapes, sizeof(T)));
  }
  return count.peak();
}

template <typename T>
std::int64_t Pipeline<T>::slot_bytes_on(const Device& device) const {
  Carver host, features;
  for (const Device& home : homes_) {
    if (home.name == device.name) carve_slot(host, features, slot_shape(inputs_.shapes, sizeof(T)));
  }
  return features.peak();
}

template <typename T>
std::map<std::string, std::int64_t> Pipeline<T>::bytes_by_purpose(const DeviceThread<T>& device) const {
  std::map<std::string, std::int64_t> bytes = device.bytes_by_purpose();
  if (const std::int64_t slots = slot_bytes_on(device.device()); slots > 0) bytes["slots"] = slots;
  return bytes;
}

template <typename T>
void Pipeline<T>::allocate() {
  collective_ = make_collective(drafters_of<T>(devices_));
  if (inputs_.hooks.collective) collective_ = inputs_.hooks.collective(std::move(collective_));
  for (const auto& device : devices_) {
    device->carve();
    if (device->roles().drafter) {
      collective_->set_buffers(*device->roles().drafter, device->exchange_buffers());
    }
  }
  ring_.emplace(slot_shape(inputs_.shapes, sizeof(T)), inputs_.config.devices.queue.slots, homes_);
}

template <typename T>
void Pipeline<T>::set_up(const TrainedState& state, const StartingPoint& start, SetUpTimes& times) {
  const PackerSettings packing = packer_settings(inputs_.config, inputs_.shapes.budget);
  // Slot 0 lends itself to the warm-up; it stays free for micro-batch 0. What warms up comes from the first
  // documents: a run that has made all its steps has none left.
  Slot& slot = *ring_->wait(0, SlotState::free);
  slot.facts = Packer(inputs_.train, inputs_.shapes.drafter, packing, DataPosition{}).next(slot.batch);
  double warm_up_s = 0;                  // of the slowest device
  for (const auto& device : devices_) {  // targets come first, so a drafter finds features
    timed(times.load_s, [&] { device->load(inputs_.config.target); });
    timed(times.restore_s, [&] { device->restore(state, start.counters); });
    double device_s = 0;
    timed(device_s, [&] { device->warm_up(slot); });
    warm_up_s = std::max(warm_up_s, device_s);
    times.warm_up_s += device_s;
  }
  collective_->connect();
  limit_s_ = watchdog_limit_s(inputs_.config.devices.watchdog_s, warm_up_s);
  feeder_.emplace(Packer(inputs_.train, inputs_.shapes.drafter, packing, start.position),
                  evaluation_ ? &*evaluation_ : nullptr,
                  MicroBatchBuilder(inputs_.shapes.budget, inputs_.shapes.drafter));
  if (evaluation_) {
    collector_.emplace(*evaluation_, inputs_.shapes.loss.kind, inputs_.shapes.drafter.block_size,
                       inputs_.hooks);
  }
}

template <typename T>
RoleTimes Pipeline<T>::time_roles() {
  return draftsmith::time_roles<T>(devices_, *ring_->wait(0, SlotState::free), *collective_, limit_s_);
}

template <typename T>
void Pipeline<T>::run(const StartingPoint& start, Recorder& recorder, CheckpointThread& checkpoints) {
  const SequencePlan sequence = plan_sequence(inputs_, evaluation_, start);
  StepLeader leader({.plan = sequence,
                     .block_size = inputs_.shapes.drafter.block_size,
                     .checkpoint_every = inputs_.config.train.checkpoint.every,
                     .epoch = start.position.epoch,
                     .writers = inputs_.config.train.optimizer.shard ? drafter_count(inputs_) : 1,
                     .earlier_wall_s = start.wall_s,
                     .collector = collector_ ? &*collector_ : nullptr},
                    recorder, checkpoints, *ring_);
  const PipelineLinks links{.plan = sequence,
                            .ring = *ring_,
                            .collective = *collective_,
                            .leader = leader,
                            .hooks = inputs_.hooks,
                            .stop_signal = inputs_.stop_signal};
  const HeapCounts heap_before = heap_counts();
  Crew crew([&] {
    close_all(checkpoints);
    leader.cancel();
  });
  std::jthread checkpoint_thread = start_thread("checkpoints", [&] {
    try {
      checkpoints.run();
    } catch (...) {
      crew.fail();
    }
  });
  try {
    start_threads(crew, links, recorder, checkpoints);
    if (watch_set_up(crew)) {
      seal();
      leader.begin();
      gate_.arrive();
      watch(crew, leader);
    }
  } catch (...) {
    crew.fail();
  }
  crew.join_or_exit(milliseconds(limit_s_));
  timed(last_checkpoint_s_, [&] {
    checkpoints.finish();  // nobody submits any more
    checkpoint_thread.join();
  });
  seal_ = seal_report();
  heap_ = since(heap_before);
  unseal();
  crew.rethrow();
}

template <typename T>
void Pipeline<T>::start_threads(Crew& crew, const PipelineLinks& links, Recorder& recorder,
                                CheckpointThread& checkpoints) {
  crew.start(feeder_->times(), [this, links] { feeder_->run(links.plan, links.ring, links.hooks); });
  if (collector_) {
    crew.start(collector_->times(), [this, links, &recorder, &checkpoints] {
      collector_->run(links.plan, links.ring, recorder, checkpoints);
    });
  }
  for (const auto& device : devices_) {
    crew.start(device->times(), [this, &device = *device, links] { run_device(device, links); });
  }
}

template <typename T>
std::chrono::milliseconds Pipeline<T>::watch_period() const {
  return std::min(std::chrono::milliseconds(1000), milliseconds(limit_s_ / 4));
}

// Until every device waits at the gate: the drafters exchange for the first time, which may fail or hang too. False when
// a thread has failed.
template <typename T>
bool Pipeline<T>::watch_set_up(Crew& crew) {
  Watchdog watchdog(limit_s_);
  do {
    collective_->check();
    watchdog.check(crew.running());
  } while (!gate_.others_arrive_within(watch_period()));
  return !collective_->cancelled();
}

// The main thread's part of a run: looks once a second whether memory stays where it is, the exchange is sound and
// somebody goes on.
template <typename T>
void Pipeline<T>::watch(Crew& crew, const StepLeader& leader) {
  Watchdog watchdog(limit_s_);
  do {
    memory_.sample(leader.steps_made());
    collective_->check();
    watchdog.check(crew.running());
  } while (!crew.ended_within(watch_period()));
}

template <typename T>
void Pipeline<T>::run_device(DeviceThread<T>& device, const PipelineLinks& links) {
  attach_thread(device.device());
  set_log_device(device.device().name.text());
  if (!device.exchange_nothing(links.collective) || !gate_.arrive()) return;
  device.run(links);
}

// The first failure: nobody waits any more. What is written is finished.
template <typename T>
void Pipeline<T>::close_all(CheckpointThread& checkpoints) {
  ring_->close();
  collective_->cancel();
  gate_.cancel();
  checkpoints.close();
  if (collector_) collector_->close();
}

template <typename T>
const DeviceThread<T>& Pipeline<T>::drafter_zero() const {
  return **std::find_if(devices_.begin(), devices_.end(),
                        [](const auto& device) { return device->roles().drafter == 0; });
}

template <typename T>
std::optional<EvaluationRecord> Pipeline<T>::last_evaluation() const {
  return collector_ ? collector_->last() : std::nullopt;
}

template <typename T>
TrainReport Pipeline<T>::report() const {
  TrainReport report{.compute = kDType<T> == DType::bf16 ? "bf16" : "float32",
                     .seconds = drafter_zero().times().total_s,
                     .last_checkpoint_s = last_checkpoint_s_,
                     .slot_bytes = slot_bytes(),
                     .staging_bytes = InitialState::bytes(table_),
                     .memory = memory_.report(),
                     .seal = seal_,
                     .heap = heap_};
  report.threads.push_back(feeder_->times());
  for (const auto& device : devices_) {
    const ThreadTimes& times = device->times();
    report.tokens += device->work().tokens;
    report.blocks += device->work().blocks;
    report.threads.push_back(times);
    report.devices.push_back({.name = device->device().name.text(),
                              .kind = device->device().name.kind,
                              .threads = device->device().threads,
                              .target = device->roles().target.has_value(),
                              .drafter = device->roles().drafter.has_value(),
                              .bytes = device->bytes() + slot_bytes_on(device->device()),
                              .bytes_by_purpose = bytes_by_purpose(*device),
                              .work = device->work(),
                              .total_s = times.total_s,
                              .busy_s = times.total_s - times.whole().waited_s(),
                              .product_rate = device->product_rate(),
                              .copy_rates = device->copy_rates()});
  }
  if (collector_) report.threads.push_back(collector_->times());
  report.skipped_steps = drafter_zero().counters().skipped;
  return report;
}

template class Pipeline<float>;
template class Pipeline<bf16>;

}  // namespace draftsmith
