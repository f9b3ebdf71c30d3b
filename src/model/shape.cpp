#include "model/shape.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"

namespace draftsmith {
namespace {

constexpr std::int64_t kSmallestBlock = 2;
constexpr std::int64_t kLargestBlock = 32;

void require(bool holds, const std::string& message) {
  if (!holds) throw Error(message);
}

void require_tappable(std::int64_t target_layers) {
  require(
      target_layers >= 2,
      fmt::format("the target has {} layer, and its last one cannot be tapped; a drafter needs a target of "
                  "at least 2",
                  target_layers));
}

void check_taps(const DrafterShape& shape) {
  require(!shape.taps.empty(), "drafter.taps is empty; name at least one target layer");
  const std::int64_t last = shape.target_layers - 2;
  require_tappable(shape.target_layers);
  for (std::size_t i = 0; i < shape.taps.size(); ++i) {
    const bool inside = shape.taps[i] >= 0 && shape.taps[i] <= last;
    const bool increasing = i == 0 || shape.taps[i] > shape.taps[i - 1];
    require(
        inside && increasing,
        fmt::format("drafter.taps [{}] cannot be used: expected strictly increasing layers within 0..{} (the "
                    "target has {} layers; whether the last one's output is normed differs between serving "
                    "engines, so it is never tapped). Set drafter.taps explicitly",
                    fmt::join(shape.taps, ", "), last, shape.target_layers));
  }
}

void check_sliding(const DrafterShape& shape) {
  bool any = false;
  for (std::int64_t layer = 0; layer < shape.layers; ++layer) any = any || shape.sliding(layer);
  require(!any || shape.sliding_window >= shape.block_size,
          fmt::format(
              "drafter.sliding_window {} is smaller than the block of {} slots; expected at least the block",
              shape.sliding_window, shape.block_size));
}

// Rounded half to even, on the double value.
std::vector<std::int64_t> spread_evenly(std::int64_t first, std::int64_t last, std::int64_t count) {
  std::vector<std::int64_t> layers;
  const auto start = static_cast<double>(first), end = static_cast<double>(last);
  for (std::int64_t i = 0; i < count; ++i) {
    const double at = start + static_cast<double>(i) * (end - start) / static_cast<double>(count - 1);
    const double floor = std::floor(at);
    const bool half = at - floor == 0.5;
    const bool down = half && std::fmod(floor, 2.0) == 0.0;
    layers.push_back(static_cast<std::int64_t>(down ? floor : std::floor(at + 0.5)));
  }
  return layers;
}

}  // namespace

std::vector<std::int64_t> default_taps(std::int64_t target_layers, std::int64_t count) {
  const std::int64_t last = target_layers - 2;
  require_tappable(target_layers);
  if (count == 1) return {std::min(target_layers / 2, last)};
  if (count <= target_layers - 3) return spread_evenly(1, target_layers - 3, count);
  if (count <= last + 1) return spread_evenly(0, last, count);
  std::vector<std::int64_t> all;
  for (std::int64_t layer = 0; layer <= last; ++layer) all.push_back(layer);
  throw Error(fmt::format(
      "the target has {} layers of which {} can be tapped, fewer than the {} of drafter.layers, and "
      "by default each has a tap of its own; set drafter.taps to [{}], or to some of them",
      target_layers, all.size(), count, fmt::join(all, ", ")));
}
void check_drafter_shape(const DrafterShape& shape) {
  require(shape.layers >= 1, fmt::format("drafter.layers is {}; expected at least 1", shape.layers));
  require(
      shape.block_size >= kSmallestBlock && shape.block_size <= kLargestBlock,
      fmt::format(
          "drafter.block_size is {}; expected {}..{}: slot 0 is the anchor's token and each further slot a "
          "drafted one",
          shape.block_size, kSmallestBlock, kLargestBlock));
  require(shape.query_heads >= 1 && shape.kv_heads >= 1 && shape.query_heads % shape.kv_heads == 0,
          fmt::format("drafter.query_heads {} must be a multiple of drafter.kv_heads {}", shape.query_heads,
                      shape.kv_heads));
  require(shape.head_dim >= 2 && shape.head_dim % 2 == 0 && shape.head_dim <= kLargestHead,
          fmt::format("drafter.head_dim is {}; expected an even number within 2..{}", shape.head_dim,
                      kLargestHead));
  require(static_cast<std::int64_t>(shape.layer_kinds.size()) == shape.layers,
          fmt::format("drafter.layer_types names {} layers; expected one for each of the {} layers",
                      shape.layer_kinds.size(), shape.layers));
  require(shape.mask_token_id >= 0 && shape.mask_token_id < shape.vocabulary,
          fmt::format("drafter.mask_token_id {} is no row of the embedding table; expected 0..{}",
                      shape.mask_token_id, shape.vocabulary - 1));
  require(shape.rope.scaling != RopeScaling::llama3, std::string(kNoLlama3Drafter));
  check_taps(shape);
  check_sliding(shape);
}

}  // namespace draftsmith
