#include "train/export_run.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "base/log.h"
#include "data/file.h"
#include "data/folder_lock.h"
#include "data/json_fields.h"
#include "data/snapshot.h"
#include "model/drafter_export.h"
#include "model/drafter_loader.h"

namespace draftsmith {
namespace {

CheckpointFolder checkpoint_of_step(const std::vector<CheckpointFolder>& all, const std::string& which) {
  std::int64_t step = 0;
  const auto parsed = std::from_chars(which.data(), which.data() + which.size(), step);
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const CheckpointFolder& one) { return one.step == step; });
  if (parsed.ec == std::errc() && parsed.ptr == which.data() + which.size() && found != all.end())
    return *found;
  std::vector<std::int64_t> steps;
  for (const CheckpointFolder& one : all) steps.push_back(one.step);
  throw Error(fmt::format("--checkpoint {}: expected best, last or a step that has one: {}", which,
                          fmt::join(steps, ", ")));
}

// Throws Error where it is no run with a checkpoint.
std::vector<CheckpointFolder> checkpoints_of(const RunFolder& folder) {
  const std::vector<CheckpointFolder> all = list_checkpoints(folder);
  if (!all.empty()) return all;
  if (is_run_folder(folder) || std::filesystem::is_directory(folder.checkpoints()))
    throw Error(no_complete_checkpoint(folder));
  const std::string path = folder.path.string();
  throw Error(fmt::format(
      "{}: expected a run's folder, as output names it in run.yaml, found {}; relative paths start in {}",
      path,
      !std::filesystem::exists(path)        ? "nothing of this name"
      : std::filesystem::is_directory(path) ? "a folder of something else"
                                            : "a file",
      std::filesystem::current_path().string()));
}

std::string what_is_whole(const RunFolder& folder) {
  std::vector<std::int64_t> steps;
  for (const CheckpointFolder& checkpoint : list_checkpoints(folder)) {
    if (!damage_of(checkpoint.path)) steps.push_back(checkpoint.step);
  }
  if (steps.empty()) return "no checkpoint of this run is whole";
  return fmt::format("name a step whose checkpoint is whole with --checkpoint: {}", fmt::join(steps, ", "));
}

CheckpointFolder choose(const RunFolder& folder, const std::string& which) {
  const std::vector<CheckpointFolder> all = checkpoints_of(folder);
  if (which == "last") return all.back();
  if (which == "best") {
    warn_of_incomplete_checkpoints(folder);
    return best_checkpoint(folder).value_or(all.back());
  }
  return checkpoint_of_step(all, which);
}

// How much of the data a run has seen.
std::string data_text(const CheckpointFacts& facts) {
  const CorpusIdentity& data = facts.data;
  if (facts.position.epoch == 0) {
    return fmt::format("{} of {} conversations", facts.position.place, data.documents);
  }
  const double epochs = static_cast<double>(facts.position.epoch) +
                        static_cast<double>(facts.position.place) / static_cast<double>(data.documents);
  return fmt::format("{} conversations of {} tokens, {:.1f} times over", data.documents, data.tokens, epochs);
}

std::string model_card(const DrafterShape& shape, const CheckpointFacts& facts) {
  std::string card = fmt::format(
      "# A DFlash drafter\n\n"
      "Drafts blocks of {} tokens for a target of {} layers and width {}, trained with draftsmith.\n"
      "It reads the raw outputs of the target's layers {} (0-based), uses the target's embedding table and "
      "head, and fills the slots of a block with token {}.\n\n"
      "- {} layers, {:.1f} M weights, bf16\n"
      "- trained for {} steps on {}\n",
      shape.block_size, shape.target_layers, shape.width, fmt::join(shape.taps, ", "), shape.mask_token_id,
      shape.layers, static_cast<double>(drafter_weight_table(shape).size) / 1e6, facts.step,
      data_text(facts));
  if (facts.evaluation) {
    card += fmt::format(
        "- held-out acceptance {:.2f}: tokens committed per draft cycle, pooled over {} conversations, "
        "walked "
        "along the target's answers\n",
        facts.evaluation->acceptance, facts.evaluation->conversations);
  }
  return card;
}

std::string origin_text(const CheckpointFacts& facts) {
  JsonObject json{{"step", {facts.step}}};
  if (facts.evaluation) json.push_back({"acceptance", {facts.evaluation->acceptance}});
  if (facts.evaluated_on) json.push_back({"evaluated_on", identity_json(*facts.evaluated_on)});
  if (facts.target) json.push_back({"target", identity_json(*facts.target)});
  return write_json({json}, JsonLayout::indented);
}

// What origin.json says; none of an older draftsmith, or of another program's drafter.
std::optional<ExportOrigin> read_origin(const std::filesystem::path& exported) {
  const std::string path = (exported / "origin.json").string();
  if (!std::filesystem::exists(path)) return std::nullopt;
  const JsonValue json = parse_json(read_text_file(path), path);
  const JsonFields fields(path, "", json);
  ExportOrigin origin{.step = fields.integer("step", {}), .acceptance = fields.find_number("acceptance", {})};
  if (const auto data = fields.find_object("evaluated_on")) origin.evaluated_on = read_identity(*data);
  if (const auto target = fields.find_object("target")) origin.target = read_target_identity(*target);
  return origin;
}

// Of an export that is whole and says it. Warns of one that is not whole; one whose list was removed, as its owner does
// who changed it, is taken at its word.
std::optional<ExportOrigin> find_origin(const std::filesystem::path& exported) {
  try {
    if (std::filesystem::exists(exported / kChecksumFile)) {
      verify_snapshot(exported, {.only = {"config.json", "model.safetensors", "origin.json"},
                                 .advice = "the export is damaged"});
    }
    return read_origin(exported);
  } catch (const Error& error) {
    log_warning(fmt::format("{}. The older export is replaced", error.what()));
    return std::nullopt;
  }
}

}  // namespace

std::optional<TargetIdentity> exported_target(const std::filesystem::path& folder) {
  const auto origin = read_origin(folder);
  return origin ? origin->target : std::nullopt;
}

ExportedRun export_run(const RunFolder& folder, const std::string& which) {
  checkpoints_of(folder);  // any other folder is left as it is
  check_export_place(folder);
  // A run that goes on has the lock: its drafter is exported beside it, and leftovers wait.
  const auto lock = FolderLock::if_free(folder.path);
  if (lock) remove_leftovers(folder);
  const auto exporting = FolderLock::wait(folder.checkpoints());
  const CheckpointFolder checkpoint = choose(folder, which);
  if (const auto damage = damage_of(checkpoint.path))
    throw Error(fmt::format("{}; {}", *damage, what_is_whole(folder)));
  const CheckpointFacts facts = read_checkpoint_facts(checkpoint.path);
  const auto best = best_checkpoint(folder);
  ExportedRun exported{
      .checkpoint = checkpoint, .folder = folder.exported(), .best = best && best->step == checkpoint.step};
  if (facts.evaluation) exported.acceptance = facts.evaluation->acceptance;
  if (which == "best") {
    const auto older = find_origin(folder.exported());
    if (older && older->acceptance && comparable(older->evaluated_on, facts.evaluated_on) &&
        *older->acceptance > exported.acceptance.value_or(0)) {
      exported.kept = older;
      return exported;
    }
  }
  const DrafterShape shape = read_checkpoint_drafter(checkpoint.path);
  const WeightTable table = drafter_weight_table(shape);
  Carver count;
  carve_trained_state(count, table);
  std::vector<std::byte> memory(static_cast<std::size_t>(count.peak()));
  Carver carver(memory.data(), count.peak());
  const TrainedState state = carve_trained_state(carver, table);
  read_checkpoint_state(checkpoint.path, table, state);
  export_drafter(folder.exported(), {.shape = shape,
                                     .weights = state.master,
                                     .model_card = model_card(shape, facts),
                                     .origin = origin_text(facts)});
  return exported;
}

}  // namespace draftsmith
