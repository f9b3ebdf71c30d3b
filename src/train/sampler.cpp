#include "train/sampler.h"

#include <numeric>
#include <utility>

#include "base/arithmetic.h"
#include "base/random.h"

namespace draftsmith {

Sampler::Sampler(const SamplerSettings& settings, const DataPosition& start)
    : settings_(settings), position_(start), order_(settings.documents) {
  DRAFTSMITH_CHECK(settings.documents > 0, "a data set with nothing to train on was refused");
  DRAFTSMITH_CHECK(start.place >= 0 && start.place < settings.documents, "a position lies in its data set");
  order_epoch();
}

std::optional<Sampler::Draw> Sampler::peek() const {
  if (settings_.epochs && position_.epoch >= *settings_.epochs) return std::nullopt;
  return Draw{.epoch = position_.epoch, .document = order_[position_.place]};
}

void Sampler::advance() {
  if (++position_.place < settings_.documents) return;
  position_ = {.epoch = position_.epoch + 1, .place = 0};
  order_epoch();
}

// Fisher and Yates, from the last place to the first.
void Sampler::order_epoch() {
  const Random random(settings_.seed, RandomStream::epoch_order, narrow<std::uint32_t>(position_.epoch));
  std::iota(order_.begin(), order_.end(), 0);
  for (std::int64_t place = settings_.documents - 1; place > 0; --place) {
    const auto other = static_cast<std::int64_t>(
        random.below(static_cast<std::uint64_t>(place), static_cast<std::uint64_t>(place) + 1));
    std::swap(order_[place], order_[other]);
  }
}

}  // namespace draftsmith
