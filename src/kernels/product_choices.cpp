#include "kernels/product_choices.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/error.h"

namespace draftsmith {

namespace {

std::string value_of(const DeviceFacts& facts, const std::string& name) {
  const auto found =
      std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == name; });
  return found == facts.end() ? "unknown" : found->second;
}

// A line a fact whose value has changed.
std::string differences(const DeviceFacts& before, const DeviceFacts& now) {
  std::string lines;
  for (const auto& [name, value] : now) {
    const std::string old = value_of(before, name);
    if (old != value) lines += fmt::format("\n  {} was {} and is {}", name, old, value);
  }
  return lines;
}

std::int64_t equal_facts(const DeviceFacts& before, const DeviceFacts& now) {
  return std::count_if(now.begin(), now.end(),
                       [&](const auto& fact) { return value_of(before, fact.first) == fact.second; });
}

}  // namespace

ProductChoices::ProductChoices(std::vector<DeviceChoices> stored, std::string place)
    : all_(std::move(stored)), place_(std::move(place)) {
  if (!all_.empty()) return;
  throw Error(fmt::format("{}: expected the choices of one kind of device or more, found none. {}", place_,
                          kRetuneAdvice));
}

DeviceChoices ProductChoices::of(const DeviceFacts& facts, const std::string& device) const {
  for (const DeviceChoices& one : all_) {
    if (one.facts == facts) return one;
  }
  if (place_.empty()) return {.facts = facts};
  const auto nearest = std::max_element(all_.begin(), all_.end(), [&](const auto& a, const auto& b) {
    return equal_facts(a.facts, facts) < equal_facts(b.facts, facts);
  });
  throw Error(fmt::format("{}: on {} the run would not go on with the same bits:{}\n{}", place_, device,
                          differences(nearest->facts, facts), kRetuneAdvice));
}

void ProductChoices::add(const DeviceChoices& made) {
  auto found = std::find_if(all_.begin(), all_.end(),
                            [&](const DeviceChoices& one) { return one.facts == made.facts; });
  if (found == all_.end()) found = all_.insert(all_.end(), {.facts = made.facts});
  found->products.insert(made.products.begin(), made.products.end());
}

}  // namespace draftsmith
