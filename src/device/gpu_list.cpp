#include "device/gpu_list.h"

#include <fmt/core.h>

#include "base/counted.h"
#include "base/error.h"

namespace draftsmith {

namespace {

constexpr int kOldestCompute = 80;  // the oldest architecture that kernels are built for

std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string why_none(const DriverAnswer& answer) {
  if (answer.driver == 0) return "there is no NVIDIA driver on this machine";
  if (answer.too_old) {
    return fmt::format("the NVIDIA driver supports CUDA {}, but this draftsmith needs {} or newer: update it",
                       version_text(answer.driver), version_text(answer.needed));
  }
  if (!answer.failure.empty()) return "the NVIDIA driver fails: " + answer.failure + ". See nvidia-smi";
  if (!answer.cards.empty()) return "";
  return "the NVIDIA driver finds no GPU (is it hidden by CUDA_VISIBLE_DEVICES, or not given to this "
         "container?)";
}

std::string why_unusable(const DriverAnswer::Card& card) {
  if (!card.failure.empty()) return "its properties cannot be read: " + card.failure;
  const int compute = card.traits.compute;
  if (compute >= kOldestCompute) return "";
  return fmt::format("its architecture is {}.{}, but kernels are built for 8.0 (Ampere) and newer",
                     compute / 10, compute % 10);
}

}  // namespace

GpuList judge_gpus(const DriverAnswer& answer) {
  GpuList list{.gpus = {}, .none = why_none(answer)};
  if (!list.none.empty()) return list;
  for (int index = 0; index < static_cast<int>(answer.cards.size()); ++index) {
    const DriverAnswer::Card& card = answer.cards[static_cast<std::size_t>(index)];
    list.gpus.push_back(
        {.name = {DeviceKind::cuda, index}, .traits = card.traits, .unusable = why_unusable(card)});
  }
  return list;
}

const GpuList::Gpu& usable_gpu(const GpuList& list, DeviceName name) {
  const int count = static_cast<int>(list.gpus.size());
  std::string why = list.none;
  if (why.empty() && name.index >= count) {
    why = fmt::format("this machine has {}, cuda:0{}", counted(count, "GPU"),
                      count == 1 ? "" : fmt::format(" to cuda:{}", count - 1));
  }
  if (why.empty()) why = list.gpus[static_cast<std::size_t>(name.index)].unusable;
  if (!why.empty()) throw Error(fmt::format("device {} cannot be used: {}", name.text(), why));
  return list.gpus[static_cast<std::size_t>(name.index)];
}

}  // namespace draftsmith
