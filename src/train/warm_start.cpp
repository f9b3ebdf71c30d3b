#include "train/warm_start.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "data/drafter_folder.h"
#include "model/drafter_loader.h"
#include "model/target_shape.h"

namespace draftsmith {
namespace {

// Collects where two drafters differ.
class Differences {
 public:
  template <typename Value>
  void compare(const char* option, const Value& wanted, const Value& found) {
    if (wanted != found) lines_.push_back(fmt::format("  {}: {} here, {} there", option, wanted, found));
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

std::vector<std::string> names_of(const std::vector<LayerKind>& kinds) {
  std::vector<std::string> names;
  for (const LayerKind kind : kinds)
    names.push_back(kind == LayerKind::full ? "full_attention" : "sliding_attention");
  return names;
}

// What a kind of scaling does not use is alike in both.
void compare_rope(const RopeShape& wanted, const RopeShape& found, Differences& all) {
  const auto name = [](RopeScaling scaling) {
    return scaling == RopeScaling::none ? "none" : rope_config({.scaling = scaling}).rope_type;
  };
  all.compare("drafter.rope.theta", wanted.theta, found.theta);
  all.compare("drafter.rope.scaling.type", name(wanted.scaling), name(found.scaling));
  if (wanted.scaling != found.scaling) return;
  all.compare("drafter.rope.scaling.factor", wanted.factor, found.factor);
  all.compare("drafter.rope.scaling.original_max_position_embeddings", wanted.original_positions,
              found.original_positions);
  all.compare("drafter.rope.scaling.attention_factor", wanted.attention_factor, found.attention_factor);
  all.compare("drafter.rope.scaling.beta_fast", wanted.beta_fast, found.beta_fast);
  all.compare("drafter.rope.scaling.beta_slow", wanted.beta_slow, found.beta_slow);
  all.compare("truncate of yarn", wanted.truncate, found.truncate);
}

std::vector<std::string> differences(const DrafterShape& wanted, const DrafterShape& found) {
  Differences all;
  all.compare("drafter.layers", wanted.layers, found.layers);
  all.compare("the target's hidden_size", wanted.width, found.width);
  all.compare("the target's vocab_size", wanted.vocabulary, found.vocabulary);
  all.compare("the target's num_hidden_layers", wanted.target_layers, found.target_layers);
  all.compare("drafter.intermediate", wanted.intermediate, found.intermediate);
  all.compare("drafter.query_heads", wanted.query_heads, found.query_heads);
  all.compare("drafter.kv_heads", wanted.kv_heads, found.kv_heads);
  all.compare("drafter.head_dim", wanted.head_dim, found.head_dim);
  all.compare("drafter.taps", wanted.taps, found.taps);
  all.compare("drafter.mask_token_id", wanted.mask_token_id, found.mask_token_id);
  all.compare("drafter.attention_bias", wanted.attention_bias, found.attention_bias);
  all.compare("drafter.layer_types", names_of(wanted.layer_kinds), names_of(found.layer_kinds));
  all.compare("drafter.sliding_window", wanted.sliding_window, found.sliding_window);
  all.compare("drafter.rms_norm_eps", wanted.epsilon, found.epsilon);
  compare_rope(wanted.rope, found.rope, all);
  return all.lines();
}

void refuse_differences(const std::filesystem::path& folder, const DrafterShape& wanted,
                        const DrafterShape& found) {
  const std::vector<std::string> different = differences(wanted, found);
  if (different.empty()) return;
  throw Error(
      fmt::format("drafter.init: the drafter in {} is another than this run trains:\n{}\n"
                  "Set these options to what the folder has, or begin without drafter.init",
                  folder.string(), fmt::join(different, "\n")));
}

void require_drafter(const std::filesystem::path& folder) {
  if (std::filesystem::exists(folder / "config.json")) return;
  throw Error(
      fmt::format("drafter.init: {} has no config.json; expected a drafter's folder, such as a run's export",
                  std::filesystem::absolute(folder).string()));
}

}  // namespace

void check_initial_drafter(const std::filesystem::path& folder, const DrafterShape& shape) {
  require_drafter(folder);
  refuse_differences(folder, shape, drafter_shape(DrafterFolder(folder).config()));
}

void load_initial_weights(const std::filesystem::path& folder, const DrafterShape& shape,
                          Vector<float> master) {
  require_drafter(folder);
  const LoadedDrafter loaded = load_drafter(folder);
  refuse_differences(folder, shape, loaded.shape);
  DRAFTSMITH_CHECK(static_cast<std::int64_t>(loaded.weights.size()) == master.size,
                   "equal shapes have one table");
  std::copy(loaded.weights.begin(), loaded.weights.end(), master.begin());
}

}  // namespace draftsmith
