#include "train/slots.h"

#include <algorithm>
#include <limits>

#include "kernels/block_loss.h"

namespace draftsmith {

CarvedBatch carve_batch(Carver& carver, const BatchBudget& budget) {
  const std::int64_t begin = carver.mark();
  CarvedBatch carved;
  carved.batch = carve_micro_batch(carver, budget);
  carved.bytes = {reinterpret_cast<std::byte*>(carved.batch.tokens.data), carver.mark() - begin};
  return carved;
}

Slot carve_slot(Carver& carver, Carver& features, const SlotShape& shape) {
  Slot slot;
  const CarvedBatch carved = carve_batch(carver, shape.budget);
  slot.batch = carved.batch;
  slot.batch_bytes = carved.bytes;
  slot.features = features.vector<std::byte>(shape.budget.context_tokens * shape.feature_row_bytes);
  slot.final_hidden = features.vector<std::byte>(shape.budget.context_tokens * shape.final_hidden_row_bytes);
  slot.predictions = carver.vector<std::int32_t>(shape.budget.loss_rows());
  slot.sums = carver.vector<double>(LossSums::size(shape.budget.block_size));
  return slot;
}

SlotRing::SlotRing(const SlotShape& shape, std::int64_t slots, const std::vector<Device>& homes)
    : places_(slots), end_(std::numeric_limits<std::int64_t>::max()) {
  DRAFTSMITH_CHECK(homes.empty() || std::ssize(homes) == slots, "every slot has a home, or none");
  Carver count;
  for (std::int64_t i = 0; i < slots; ++i) {
    Carver features;
    carve_slot(count, homes.empty() ? count : features, shape);
    if (!homes.empty()) features_.push_back(Buffer::on_device(homes[i], features.peak()));
  }
  memory_ = Buffer::pinned(count.peak());
  Carver carver(memory_.data(), memory_.bytes());
  for (std::int64_t i = 0; i < slots; ++i) {
    Carver features = homes.empty() ? Carver() : Carver(features_[i].data(), features_[i].bytes());
    places_[i].slot = carve_slot(carver, homes.empty() ? carver : features, shape);
    places_[i].index = i;
  }
}

Slot* SlotRing::wait(std::int64_t index, SlotState state) {
  Place& place = places_[index % size()];
  Lock lock(mutex_);
  while (!closed_ && index < end_ && !(place.index == index && place.state == state)) {
    place.changed.wait(mutex_);
  }
  return closed_ || index >= end_ ? nullptr : &place.slot;
}

void SlotRing::advance(std::int64_t index, SlotState to) {
  Place& place = places_[index % size()];
  Lock lock(mutex_);
  DRAFTSMITH_CHECK(place.index == index, "a slot is handed on by the thread that waited for it");
  place.state = to;
  if (to == SlotState::free) place.index += size();
  place.changed.notify_all();
}

void SlotRing::end_at(std::int64_t index) {
  Lock lock(mutex_);
  end_ = std::min(end_, index);
  for (Place& place : places_) place.changed.notify_all();
}

void SlotRing::close() {
  Lock lock(mutex_);
  closed_ = true;
  for (Place& place : places_) place.changed.notify_all();
}

std::int64_t SlotRing::filled() {
  Lock lock(mutex_);
  return std::count_if(places_.begin(), places_.end(),
                       [](const Place& place) { return place.state == SlotState::filled; });
}

}  // namespace draftsmith
