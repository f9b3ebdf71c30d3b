#include "app/config_check.h"

#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include "app/options.h"
#include "base/error.h"
#include "base/printable.h"
#include "device/device.h"

namespace draftsmith {
namespace {

using Findings = std::vector<ConfigFinding>;

void check_required(const RunConfig& config, Findings& findings) {
  for (const Option& option : all_options()) {
    if (!option.is_required || !option.get(config).empty()) continue;
    findings.push_back(
        {std::string(option.name), fmt::format("'{}' is missing: {}", option.name, option.help)});
  }
}

// Taken as it is, "~/runs" would be a folder of that name here.
void check_paths(const RunConfig& config, Findings& findings) {
  const std::pair<const char*, const std::string*> paths[] = {{"target", &config.target},
                                                              {"drafter.init", &config.drafter.init},
                                                              {"data.train", &config.data.train},
                                                              {"data.eval", &config.data.eval},
                                                              {"output", &config.output}};
  for (const auto& [option, path] : paths) {
    if (path->find('\0') != path->npos) {
      findings.push_back({option, fmt::format("'{}' is {}: a path has no zero byte; write it without", option,
                                              printable(*path))});
    }
    if (*path != "~" && !path->starts_with("~/")) continue;
    findings.push_back(
        {option, fmt::format("'{}' is {}: only a shell knows what ~ stands for; write the whole "
                             "path, or ./~ for a folder of that name",
                             option, *path)});
  }
}

void check_heads(const DrafterConfig& drafter, Findings& findings) {
  if (drafter.query_heads && drafter.kv_heads && *drafter.query_heads % *drafter.kv_heads != 0) {
    findings.push_back({"drafter.kv_heads", fmt::format("'drafter.kv_heads' is {}, which must divide "
                                                        "'drafter.query_heads', {}",
                                                        *drafter.kv_heads, *drafter.query_heads)});
  }
  if (drafter.head_dim && *drafter.head_dim % 2 != 0) {
    findings.push_back({"drafter.head_dim", fmt::format("'drafter.head_dim' is {}, which must be even: "
                                                        "rotary positions turn pairs",
                                                        *drafter.head_dim)});
  }
}

void check_taps(const DrafterConfig& drafter, Findings& findings) {
  for (std::size_t i = 1; i < drafter.taps.size(); ++i) {
    if (drafter.taps[i] > drafter.taps[i - 1]) continue;
    findings.push_back({"drafter.taps", fmt::format("'drafter.taps' must ascend without repeats, but {} "
                                                    "follows {}",
                                                    drafter.taps[i], drafter.taps[i - 1])});
    return;
  }
}

void check_sliding(const DrafterConfig& drafter, Findings& findings) {
  const auto& types = drafter.layer_types;
  if (!types.empty() && static_cast<std::int64_t>(types.size()) != drafter.layers) {
    findings.push_back({"drafter.layer_types", fmt::format("'drafter.layer_types' names {} layers, but "
                                                           "'drafter.layers' is {}",
                                                           types.size(), drafter.layers)});
  }
  const bool slides = has_sliding_layer(drafter);
  if (slides && !drafter.sliding_window) {
    findings.push_back({"drafter.layer_types",
                        "'drafter.layer_types' has a sliding_attention layer: set "
                        "'drafter.sliding_window' too"});
  }
  if (!slides && drafter.sliding_window) {
    findings.push_back({"drafter.sliding_window",
                        "'drafter.sliding_window' is set, but no entry of "
                        "'drafter.layer_types' is sliding_attention"});
  }
  if (!slides && drafter.is_causal.value_or(false)) {
    findings.push_back({"drafter.is_causal",
                        "'drafter.is_causal' is true, but no entry of 'drafter.layer_types' is "
                        "sliding_attention, and only such layers are causal: leave it out"});
  }
  if (drafter.sliding_window && *drafter.sliding_window < drafter.block_size) {
    findings.push_back({"drafter.sliding_window", fmt::format("'drafter.sliding_window' is {}, which must be "
                                                              "at least 'drafter.block_size', {}",
                                                              *drafter.sliding_window, drafter.block_size)});
  }
}

void check_rope_scaling(const RopeScalingConfig& scaling, Findings& findings) {
  const std::string section = "drafter.rope.scaling.";
  if (scaling.type == RopeScaling::llama3) {
    findings.push_back({section + "type", std::string(kNoLlama3Drafter)});
    return;
  }
  struct Key {
    const char* name;
    bool is_said, is_of_linear, is_required;
  };
  const Key keys[] = {
      {"factor", scaling.factor.has_value(), true, true},
      {"original_max_position_embeddings", scaling.original_max_position_embeddings.has_value(), false, true},
      {"attention_factor", scaling.attention_factor.has_value(), false, false},
      {"beta_fast", scaling.beta_fast.has_value(), false, false},
      {"beta_slow", scaling.beta_slow.has_value(), false, false}};
  for (const Key& key : keys) {
    const bool belongs =
        scaling.type == RopeScaling::yarn || (scaling.type == RopeScaling::linear && key.is_of_linear);
    if (belongs && key.is_required && !key.is_said) {
      findings.push_back(
          {section + "type", fmt::format("'{0}type' says a scaling that needs '{0}{1}': set it "
                                         "too",
                                         section, key.name)});
    }
    if (!belongs && key.is_said) {
      findings.push_back(
          {section + key.name,
           fmt::format("'{0}{1}' has no meaning for this '{0}type': set it to {2}, or leave '{1}' "
                       "out",
                       section, key.name, key.is_of_linear ? "linear or yarn" : "yarn")});
    }
  }
  const double fast = scaling.beta_fast.value_or(RopeShape{}.beta_fast);
  const double slow = scaling.beta_slow.value_or(RopeShape{}.beta_slow);
  if (fast <= slow) {
    findings.push_back({section + "beta_fast", fmt::format("'{0}beta_fast' is {1}, which must be more than "
                                                           "'{0}beta_slow', {2}",
                                                           section, fast, slow)});
  }
}

void check_budget(const RunConfig& config, Findings& findings) {
  const TrainConfig& train = config.train;
  if (train.steps && train.epochs) {
    findings.push_back({"train.epochs",
                        "'train.steps' and 'train.epochs' both say how long to train: keep one "
                        "(on the command line, train.epochs=auto or train.steps=auto drops the file's)"});
  }
  if (train.context_tokens < config.data.max_length) {
    findings.push_back({"train.context_tokens",
                        fmt::format("'train.context_tokens' is {}, but a conversation may have "
                                    "'data.max_length', {}, and must fit: raise the one or lower the other",
                                    train.context_tokens, config.data.max_length)});
  }
  if (train.anchors_per_document > train.blocks) {
    findings.push_back({"train.anchors_per_document",
                        fmt::format("'train.anchors_per_document' is {}, more than the {} of 'train.blocks' "
                                    "that a micro-batch holds",
                                    train.anchors_per_document, train.blocks)});
  }
}

void check_loss(const RunConfig& config, Findings& findings) {
  const LossConfig& loss = config.train.loss;
  if (loss.type == LossKind::dpace && loss.gamma) {
    findings.push_back(
        {"train.loss.gamma",
         "'train.loss.gamma' has no meaning for the dpace loss, which weighs "
         "offsets by confidence: leave it out, or say train.loss.gamma=auto on the command line"});
  }
  if (loss.type == LossKind::dflash && loss.alpha) {
    findings.push_back({"train.loss.alpha",
                        "'train.loss.alpha' belongs to the dpace loss: leave it out, or set "
                        "'train.loss.type' to dpace"});
  }
  if (loss.type == LossKind::dpace && loss.alpha == 0.0 && config.drafter.init.empty()) {
    findings.push_back(
        {"train.loss.alpha",
         "'train.loss.alpha' is 0, so that a slot weighs what the drafter gives its label, which is "
         "next to nothing with random weights, and nothing is learned: set it above 0, as to 0.5, or "
         "begin with a trained drafter, 'drafter.init'"});
  }
}

void check_distillation(const LossConfig& loss, Findings& findings) {
  if (loss.type == LossKind::dpace && loss.distill.weight > 0) {
    findings.push_back({"train.loss.distill.weight",
                        "'train.loss.distill' is defined for the dflash loss only: set its weight to 0, or "
                        "'train.loss.type' to dflash"});
  }
  if (loss.distill.weight == 0 && loss.distill.temperature != DistillConfig{}.temperature) {
    findings.push_back({"train.loss.distill.temperature",
                        "'train.loss.distill.temperature' is set, but 'train.loss.distill.weight' is 0 and "
                        "nothing is distilled: set the weight too, or leave 'temperature' out"});
  }
}

// Scale and schedule may stand at their defaults, as they do in a saved configuration.
void check_noise(const NoiseConfig& noise, Findings& findings) {
  if (noise.type != NoiseKind::none) return;
  const auto find = [&](const char* key) {
    findings.push_back(
        {fmt::format("train.noise.{}", key),
         fmt::format("'train.noise.{}' is set, but 'train.noise.type' is none: set the type to "
                     "uniform or gaussian, or leave '{}' out",
                     key, key)});
  };
  if (noise.scale != NoiseConfig{}.scale) find("scale");
  if (noise.schedule != NoiseConfig{}.schedule) find("schedule");
}

void check_role(const std::string& option, const std::vector<std::string>& devices, Findings& findings) {
  std::vector<DeviceName> seen;
  for (const std::string& device : devices) {
    try {
      const DeviceName name = DeviceName::parse(device);
      if (std::find(seen.begin(), seen.end(), name) != seen.end()) {
        findings.push_back(
            {option, fmt::format("'{}' names {} twice: one thread owns one device; number another "
                                 "logical device",
                                 option, device)});
      }
      seen.push_back(name);
    } catch (const Error& error) {
      findings.push_back({option, fmt::format("'{}': {}", option, error.what())});
    }
  }
}

void check_usable(const std::string& option, const std::vector<std::string>& devices, Findings& findings) {
  for (const std::string& device : devices) {
    try {
      open_device(DeviceName::parse(device), 1, 1);
    } catch (const Error& error) {
      findings.push_back({option, fmt::format("'{}': {}", option, error.what())});
    }
  }
}

void check_target(const std::string& path, Findings& findings) {
  if (path.empty()) return;
  if (!std::filesystem::is_directory(path)) {
    findings.push_back(
        {"target", fmt::format("'target' names {}, which is no folder; relative paths start in {}", path,
                               std::filesystem::current_path().string())});
  } else if (!std::filesystem::exists(std::filesystem::path(path) / "config.json")) {
    findings.push_back(
        {"target", fmt::format("'target' names {}, which has no config.json; expected the folder of a "
                               "Hugging Face model",
                               path)});
  }
}

void check_file(const std::string& option, const std::string& path, Findings& findings) {
  if (path.empty() || std::filesystem::is_regular_file(path)) return;
  findings.push_back({option, fmt::format("'{}' names {}, which is no file; relative paths start in {}",
                                          option, path, std::filesystem::current_path().string())});
}

}  // namespace

std::vector<ConfigFinding> check_config(const RunConfig& config) {
  Findings findings;
  check_required(config, findings);
  check_paths(config, findings);
  check_heads(config.drafter, findings);
  check_taps(config.drafter, findings);
  check_sliding(config.drafter, findings);
  check_rope_scaling(config.drafter.rope.scaling, findings);
  check_budget(config, findings);
  check_loss(config, findings);
  check_distillation(config.train.loss, findings);
  check_noise(config.train.noise, findings);
  check_role("devices.targets", config.devices.targets, findings);
  check_role("devices.drafters", config.devices.drafters, findings);
  return findings;
}

std::vector<ConfigFinding> check_existence(const RunConfig& config) {
  Findings findings;
  check_target(config.target, findings);
  check_file("data.train", config.data.train, findings);
  check_file("data.eval", config.data.eval, findings);
  check_usable("devices.targets", config.devices.targets, findings);
  check_usable("devices.drafters", config.devices.drafters, findings);
  return findings;
}

}  // namespace draftsmith
