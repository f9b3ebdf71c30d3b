#include "train/warm_start.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
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

// What keeps the weights from being this run's: sizes, and what each of them stands for.
std::vector<std::string> differences(const DrafterShape& wanted, const DrafterShape& found) {
  Differences all;
  all.compare("drafter.layers", wanted.layers, found.layers);
  all.compare("the target's hidden_size", wanted.width, found.width);
  all.compare("the target's vocab_size", wanted.vocabulary, found.vocabulary);
  all.compare("drafter.intermediate", wanted.intermediate, found.intermediate);
  all.compare("drafter.query_heads", wanted.query_heads, found.query_heads);
  all.compare("drafter.kv_heads", wanted.kv_heads, found.kv_heads);
  all.compare("drafter.head_dim", wanted.head_dim, found.head_dim);
  all.compare("drafter.taps", wanted.taps, found.taps);
  all.compare("drafter.mask_token_id", wanted.mask_token_id, found.mask_token_id);
  all.compare("drafter.attention_bias", wanted.attention_bias, found.attention_bias);
  all.compare("drafter.layer_types", names_of(wanted.layer_kinds), names_of(found.layer_kinds));
  all.compare("drafter.sliding_window", wanted.sliding_window, found.sliding_window);
  all.compare("drafter.rope.theta", wanted.rope.theta, found.rope.theta);
  return all.lines();
}

// What training can adapt to, as to positions beyond those of the folder's drafter. What a kind of scaling does not use
// is alike in both.
std::vector<std::string> adaptations(const DrafterShape& wanted, const DrafterShape& found) {
  const auto name = [](RopeScaling scaling) {
    return scaling == RopeScaling::none ? "none" : rope_config({.scaling = scaling}).rope_type;
  };
  const RopeShape &rope = wanted.rope, &other = found.rope;
  Differences all;
  all.compare("the target's num_hidden_layers", wanted.target_layers, found.target_layers);
  all.compare("drafter.rms_norm_eps", wanted.epsilon, found.epsilon);
  all.compare("drafter.rope.scaling.type", name(rope.scaling), name(other.scaling));
  all.compare("drafter.rope.scaling.factor", rope.factor, other.factor);
  all.compare("drafter.rope.scaling.original_max_position_embeddings", rope.original_positions,
              other.original_positions);
  all.compare("drafter.rope.scaling.attention_factor", rope.attention_factor, other.attention_factor);
  all.compare("drafter.rope.scaling.beta_fast", rope.beta_fast, other.beta_fast);
  all.compare("drafter.rope.scaling.beta_slow", rope.beta_slow, other.beta_slow);
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

void warn_of_adaptations(const std::filesystem::path& folder, const DrafterShape& wanted,
                         const DrafterShape& found) {
  const std::vector<std::string> adapted = adaptations(wanted, found);
  if (adapted.empty()) return;
  log_warning(
      fmt::format("drafter.init: the drafter in {} was trained with other settings, to which training "
                  "has to adapt it:\n{}",
                  folder.string(), fmt::join(adapted, "\n")));
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
  const DrafterShape found = drafter_shape(DrafterFolder(folder).config());
  refuse_differences(folder, shape, found);
  warn_of_adaptations(folder, shape, found);
}

void load_initial_weights(const std::filesystem::path& folder, const DrafterShape& shape,
                          Vector<float> master) {
  require_drafter(folder);
  const LoadedDrafter loaded = load_drafter(folder);
  refuse_differences(folder, shape, loaded.shape);
  warn_of_adaptations(folder, shape, loaded.shape);
  DRAFTSMITH_CHECK(static_cast<std::int64_t>(loaded.weights.size()) == master.size,
                   "equal shapes have one table");
  std::copy(loaded.weights.begin(), loaded.weights.end(), master.begin());
}

}  // namespace draftsmith
