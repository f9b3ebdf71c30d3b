// What eval and generate share: finding a drafter and its target, and loading both onto one device.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer.h"
#include "device/device.h"
#include "generate/decoder.h"
#include "generate/sampler.h"
#include "model/drafter_loader.h"

namespace draftsmith {

struct DecodingArguments {
  std::string drafter;  // a run's folder, or a drafter's in the z-lab layout
  std::string target;   // empty: the run's
  std::string device = "cpu:0";
  std::string compute = "float32";  // or bf16
  int threads = 0;                  // of the device; 0: the machine's cores
};

struct DecodingPaths {
  std::filesystem::path drafter;  // z-lab layout
  std::filesystem::path target;   // Hugging Face folder
  std::filesystem::path data;     // the run's evaluation conversations; empty without a run, or without any
  std::optional<std::filesystem::path> run;
};

// Throws Error for what check_sampling() refuses; warns of options that have no effect.
void check_sampling_options(const SamplingSettings& sampling);

// Of a path in a run's config.yaml that leads nowhere: whose it is, and that `option` gives another.
std::string origin_in_run(const std::filesystem::path& run, std::string_view option);

// A run's folder gives its export, and its target and data unless others are named. Throws Error when there
// is no drafter, or no target for it.
DecodingPaths find_decoding_paths(const DecodingArguments& arguments);

struct DecodingModels {
  std::filesystem::path target_folder;
  TargetShape target;
  LoadedDrafter drafter;
  Tokenizer tokenizer;
  std::vector<std::int32_t> stop_tokens;  // of generation_config.json and config.json
  Device device;
  DType compute = DType::float32;
};

// Reads everything but the target's weights. Throws Error when drafter, target and tokenizer do not fit.
DecodingModels load_decoding_models(const DecodingArguments& arguments, const DecodingPaths& paths);

// Loads the target and attaches this thread to the device. Views the models; they must outlive the call only.
std::unique_ptr<Decoder> start_decoder(const DecodingModels& models, std::int64_t longest);

}  // namespace draftsmith
