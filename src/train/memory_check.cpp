#include "train/memory_check.h"

#include <algorithm>
#include <bit>
#include <optional>

#include <fmt/core.h>

#include "device/memory.h"
#include "train/initial_state.h"

namespace draftsmith {
namespace {

bool all_met(const std::vector<MemoryNeed>& needs) {
  return std::all_of(needs.begin(), needs.end(), [](const MemoryNeed& need) { return need.is_met(); });
}

struct Budgets {
  std::int64_t context_tokens = 0, blocks = 0;
};

template <typename T>
bool fits(const PipelineInputs& inputs, const Budgets& budgets) {
  RunShapes shapes = inputs.shapes;
  shapes.budget.context_tokens = budgets.context_tokens;
  shapes.budget.blocks = budgets.blocks;
  shapes.budget.loss_chunk_rows = usual_loss_chunk_rows(budgets.blocks, shapes.budget.block_size);
  Pipeline<T> pipeline({.config = inputs.config,
                        .shapes = shapes,
                        .train = inputs.train,
                        .evaluation = nullptr,
                        .steps = inputs.steps,
                        .hooks = {},
                        .stop_signal = inputs.stop_signal});
  ProductChoices choices;
  pipeline.measure(Preparation::sizes, choices);
  return all_met(memory_needs(pipeline));
}

// The largest of `least`, and the multiples of a round number between it and `most`, that fits, taking it that
// what is smaller fits too (but for chunks, whose size makes small steps up and down). The round number is a power of
// two, between a 64th and a 128th of `most`.
template <typename Fits>
std::optional<std::int64_t> largest(std::int64_t least, std::int64_t most, Fits fits) {
  const auto unit = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(most / 64 + 1)));
  if (least > most || !fits(least)) return std::nullopt;
  std::int64_t low = least / unit, high = most / unit + 1;  // low fits, high does not
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle * unit) ? low : high) = middle;
  }
  return std::max(least, low * unit);
}

// What to set instead, one way a line: the rest of the budgets stays as it is where that is enough.
template <typename T>
std::string smaller_budgets(const PipelineInputs& inputs) {
  const Budgets wanted{inputs.shapes.budget.context_tokens, inputs.shapes.budget.blocks};
  const Budgets least{inputs.config.data.max_length, inputs.config.train.anchors_per_document};
  std::string text;
  const auto add = [&](const Budgets& budgets) {
    text +=
        fmt::format("\n  train.context_tokens={} train.blocks={}", budgets.context_tokens, budgets.blocks);
  };
  const auto tokens = largest(least.context_tokens, wanted.context_tokens, [&](std::int64_t count) {
    return fits<T>(inputs, {count, wanted.blocks});
  });
  if (tokens) add({*tokens, wanted.blocks});
  const auto blocks = largest(least.blocks, wanted.blocks, [&](std::int64_t count) {
    return fits<T>(inputs, {wanted.context_tokens, count});
  });
  if (blocks) add({wanted.context_tokens, *blocks});
  const auto both = [&](std::int64_t count) {
    return Budgets{count, std::max(least.blocks, wanted.blocks * count / wanted.context_tokens)};
  };
  if (!tokens && !blocks) {
    const auto in_proportion = largest(least.context_tokens, wanted.context_tokens,
                                       [&](std::int64_t count) { return fits<T>(inputs, both(count)); });
    if (in_proportion) {
      add(both(*in_proportion));
    } else if (fits<T>(inputs, least)) {
      add(least);
    }
  }
  if (!text.empty()) return "The largest budgets that would fit, about:" + text;
  return fmt::format(
      "Not even the budgets of one document, train.context_tokens={} train.blocks={}, would fit: "
      "train.recompute=layer, fewer drafter.layers, fewer devices.queue.slots, a lower data.max_length or "
      "another "
      "device may help",
      least.context_tokens, least.blocks);
}

}  // namespace

template <typename T>
std::vector<MemoryNeed> memory_needs(const Pipeline<T>& pipeline) {
  MemoryNeed host{.where = "the host",
                  .bytes = pipeline.slot_bytes() + InitialState::bytes(pipeline.table()),
                  .available_bytes = available_host_bytes()};
  std::vector<MemoryNeed> needs;
  for (const auto& thread : pipeline.devices()) {
    const Device& device = thread->device();
    needs.push_back({.where = device.name.text(),
                     .bytes = thread->bytes() + pipeline.slot_bytes_on(device),
                     .available_bytes = available_bytes(device)});
    if (host_addressable(device)) host.bytes += needs.back().bytes;
  }
  needs.push_back(host);
  return needs;
}

template <typename T>
std::string memory_lack(const Pipeline<T>& pipeline, const PipelineInputs& inputs) {
  const std::vector<MemoryNeed> needs = memory_needs(pipeline);
  if (all_met(needs)) return "";
  std::string text = "the run needs more memory than there is:";
  for (const MemoryNeed& need : needs) {
    if (need.is_met()) continue;
    text += fmt::format("\n  {} needs {}, {} are available", need.where, byte_text(need.bytes),
                        byte_text(need.available_bytes));
  }
  return text + "\n" + smaller_budgets<T>(inputs);
}

template std::vector<MemoryNeed> memory_needs(const Pipeline<float>&);
template std::vector<MemoryNeed> memory_needs(const Pipeline<bf16>&);
template std::string memory_lack(const Pipeline<float>&, const PipelineInputs&);
template std::string memory_lack(const Pipeline<bf16>&, const PipelineInputs&);

}  // namespace draftsmith
