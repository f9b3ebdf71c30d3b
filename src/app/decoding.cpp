#include "app/decoding.h"

#include <algorithm>

#include <fmt/core.h>

#include "app/config.h"
#include "app/config_warnings.h"
#include "app/machine.h"
#include "base/arithmetic.h"
#include "base/error.h"
#include "base/log.h"
#include "data/hf_config.h"
#include "model/target_shape.h"
#include "train/export_run.h"
#include "train/run_folder.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

void require_model_folder(const fs::path& folder, const char* what, const std::string& advice = "") {
  if (fs::exists(folder / "config.json")) return;
  throw Error(
      fmt::format("{}: expected the folder of a {}, with config.json and weights; relative paths "
                  "start in {}{}",
                  folder.string(), what, fs::current_path().string(), advice));
}

RunConfig read_run_config(const RunFolder& run) {
  try {
    return load_config({.path = run.config(), .existence = Existence::unchecked});
  } catch (const Error& failure) {
    throw Error(
        fmt::format("{}. Its drafter needs no config.yaml: name {} in place of the run, with --target FOLDER",
                    failure.what(), run.exported().string()));
  }
}

// Its drafts of another target's features are checked all the same, but hardly accepted.
void warn_of_other_target(const DecodingPaths& paths) {
  try {
    const auto trained = exported_target(paths.drafter);
    if (!trained || *trained == identify_target(paths.target, trained->samples)) return;
    log_warning(fmt::format(
        "{}: this drafter was trained on another target than {} (its config.json or its weights differ): "
        "what is said stays the target's own, but fewer drafts may be accepted; give the drafter's own with "
        "--target FOLDER",
        paths.drafter.string(), paths.target.string()));
  } catch (const Error& failure) {
    log_warning(
        fmt::format("{}. Whether the drafter was trained on this target is not known", failure.what()));
  }
}

std::vector<std::int32_t> read_stop_tokens(const fs::path& folder) {
  std::vector<std::int64_t> ids = read_generation_config(folder).eos_token_ids;
  const std::vector<std::int64_t> more = read_target_config(folder).eos_token_ids;
  ids.insert(ids.end(), more.begin(), more.end());
  std::vector<std::int32_t> tokens;
  for (const std::int64_t id : ids) tokens.push_back(narrow<std::int32_t>(id));
  std::sort(tokens.begin(), tokens.end());
  tokens.erase(std::unique(tokens.begin(), tokens.end()), tokens.end());
  return tokens;
}

}  // namespace

void check_sampling_options(const SamplingSettings& sampling) {
  check_sampling(sampling);
  if (const std::string warning = sampling_warning(sampling); !warning.empty()) log_warning(warning);
}

std::string origin_in_run(const fs::path& run, std::string_view option) {
  return fmt::format(
      "the path is that in {}, where relative ones start in the folder that training was started from: go "
      "there, or "
      "give another path with {}",
      RunFolder{run}.config().string(), option);
}

DecodingPaths find_decoding_paths(const DecodingArguments& arguments) {
  const fs::path given = arguments.drafter;
  DecodingPaths paths{.drafter = given, .target = arguments.target};
  const RunFolder folder{given};
  if (fs::exists(given / "state.json")) {
    throw Error(fmt::format(
        "{0}: this is a checkpoint of a run, not a drafter. draftsmith export RUN --checkpoint STEP makes a "
        "drafter of it; then name the run or its export",
        given.string()));
  }
  if (fs::exists(folder.config())) {
    const RunConfig run = read_run_config(folder);
    paths.run = given;
    paths.drafter = folder.exported();
    if (!fs::exists(paths.drafter / "config.json")) {
      throw Error(
          fmt::format("{}: this run has no export yet. A run that ends writes one; of one that was "
                      "stopped: draftsmith export {}",
                      paths.drafter.string(), given.string()));
    }
    if (paths.target.empty()) paths.target = run.target;
    paths.data = run.data.eval;
  }
  require_model_folder(paths.drafter, "run or a drafter");
  if (paths.target.empty()) {
    throw Error(
        fmt::format("{} is no run of draftsmith: if it is a drafter, name the target that it was trained for "
                    "with --target FOLDER",
                    given.string()));
  }
  const bool of_run = paths.run && arguments.target.empty();
  require_model_folder(paths.target, "target",
                       of_run ? "; " + origin_in_run(*paths.run, "--target FOLDER") : "");
  return paths;
}

DecodingModels load_decoding_models(const DecodingArguments& arguments, const DecodingPaths& paths) {
  DecodingModels models{.target_folder = paths.target,
                        .target = read_target_shape(paths.target),
                        .drafter = load_drafter(paths.drafter),
                        .tokenizer = Tokenizer::load(paths.target),
                        .stop_tokens = read_stop_tokens(paths.target),
                        .device = open_device(DeviceName::parse(arguments.device), arguments.threads, 1),
                        .compute = arguments.compute == "bf16" ? DType::bf16 : DType::float32};
  const std::string warning =
      thread_warning("--threads", models.device.name.kind, arguments.threads, this_machine().cores);
  if (!warning.empty()) log_warning(warning);
  check_drafter_fits(models.drafter.shape, models.target);
  warn_of_other_target(paths);
  if (models.tokenizer.size() > models.target.vocabulary) {
    throw Error(
        fmt::format("{}: the tokenizer has token {}, but the target's table has {} rows; the files "
                    "belong to different models",
                    paths.target.string(), models.tokenizer.size() - 1, models.target.vocabulary));
  }
  return models;
}

std::unique_ptr<Decoder> start_decoder(const DecodingModels& models, std::int64_t longest) {
  attach_thread(models.device);
  return make_decoder(models.device, models.compute,
                      {.target_folder = models.target_folder,
                       .target = models.target,
                       .drafter = models.drafter.shape,
                       .drafter_weights = models.drafter.weights},
                      {.longest = longest});
}

}  // namespace draftsmith
