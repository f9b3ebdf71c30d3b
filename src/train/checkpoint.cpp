#include "train/checkpoint.h"

#include <array>
#include <limits>
#include <vector>

#include <fmt/core.h>

#include "base/error.h"
#include "base/log.h"
#include "data/file.h"
#include "data/folder_lock.h"
#include "data/json_fields.h"
#include "data/safetensors.h"
#include "data/safetensors_writer.h"
#include "data/snapshot.h"
#include "model/drafter_export.h"
#include "model/drafter_loader.h"
#include "train/choices_file.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateFile = "state.safetensors";
constexpr const char* kFactsFile = "state.json";
constexpr const char* kConfigFile = "config.yaml";
constexpr const char* kDrafterFile = "drafter.json";
constexpr const char* kChoicesFile = "choices.json";

struct Part {
  const char* prefix;
  Vector<float> TrainedState::*values;
};
constexpr std::array kParts = {Part{"master.", &TrainedState::master},
                               Part{"first_moment.", &TrainedState::first_moment},
                               Part{"second_moment.", &TrainedState::second_moment}};

void write_state(const fs::path& path, const WeightTable& table, const TrainedState& state) {
  std::vector<TensorDeclaration> declarations;
  for (const Part& part : kParts) {
    for (const WeightEntry& entry : table.entries) {
      declarations.push_back(
          {.name = part.prefix + entry.name, .type = FileType::f32, .shape = entry.dimensions()});
    }
  }
  SafetensorsWriter writer(path, std::move(declarations));
  for (const Part& part : kParts) {
    for (const WeightEntry& entry : table.entries) {
      const Vector<float> values = (state.*part.values).slice(entry.offset, entry.size());
      writer.write(part.prefix + entry.name,
                   std::span<const float>(values.data, static_cast<std::size_t>(values.size)));
    }
  }
  writer.finish();
}

JsonValue evaluation_json(const EvaluationRecord& record, const std::optional<CorpusIdentity>& data) {
  JsonArray by_offset;
  for (std::int64_t i = 0; i < record.accuracy_by_offset.count; ++i) {
    by_offset.push_back({record.accuracy_by_offset.values[i]});
  }
  JsonObject json{{"step", {record.step}},
                  {"loss", {record.loss}},
                  {"accuracy_by_offset", {by_offset}},
                  {"acceptance", {record.acceptance}},
                  {"conversations", {record.conversations}},
                  {"seconds", {record.seconds}}};
  if (data) json.push_back({"data", identity_json(*data)});
  return {json};
}

std::string facts_text(const CheckpointFacts& facts) {
  JsonObject json{
      {"step", {facts.step}},
      {"counters",
       {JsonObject{{"updates", {facts.counters.updates}},
                   {"skipped", {facts.counters.skipped}},
                   {"skipped_in_a_row", {facts.counters.skipped_in_a_row}}}}},
      {"position", {JsonObject{{"epoch", {facts.position.epoch}}, {"place", {facts.position.place}}}}},
      {"wall_s", {facts.wall_s}},
      {"data", identity_json(facts.data)}};
  if (facts.target) json.push_back({"target", identity_json(*facts.target)});
  if (facts.evaluation) {
    json.push_back({"evaluation", evaluation_json(*facts.evaluation, facts.evaluated_on)});
  }
  return write_json({json}, JsonLayout::indented);
}

EvaluationRecord read_evaluation(const JsonFields& fields) {
  EvaluationRecord record;
  record.step = fields.integer("step", {});
  record.loss = fields.find_number("loss", {}).value_or(kNotMeasured);
  record.acceptance = fields.find_number("acceptance", {}).value_or(kNotMeasured);
  record.conversations = fields.integer("conversations", {});
  record.seconds = fields.number("seconds", {});
  for (const JsonValue& share : fields.list("accuracy_by_offset")) {
    if (record.accuracy_by_offset.count == OffsetShares::kMost) {
      fields.refuse("accuracy_by_offset", "at most 31 shares", "use another checkpoint");
    }
    const double* const value = share.get<double>();
    record.accuracy_by_offset.values[record.accuracy_by_offset.count++] = value ? *value : kNotMeasured;
  }
  return record;
}

struct EvaluatedCheckpoint {
  CheckpointFolder folder;
  CheckpointFacts facts;
};

std::vector<EvaluatedCheckpoint> evaluated_checkpoints(const RunFolder& folder) {
  std::vector<EvaluatedCheckpoint> found;
  for (const CheckpointFolder& checkpoint : list_checkpoints(folder)) {
    const CheckpointFacts facts = read_checkpoint_facts(checkpoint.path);
    if (facts.evaluation) found.push_back({checkpoint, facts});
  }
  return found;
}

// The best of those whose scores can be compared with scores on `evaluated_on`.
std::optional<EvaluatedCheckpoint> best_of(const std::vector<EvaluatedCheckpoint>& all,
                                           const std::optional<CorpusIdentity>& evaluated_on) {
  std::optional<EvaluatedCheckpoint> best;
  double best_acceptance = 0;
  for (const EvaluatedCheckpoint& checkpoint : all) {
    const double acceptance = checkpoint.facts.evaluation->acceptance;
    if (!comparable(checkpoint.facts.evaluated_on, evaluated_on) || !(acceptance > best_acceptance)) continue;
    best = checkpoint;
    best_acceptance = acceptance;
  }
  return best;
}

}  // namespace

void write_checkpoint(const fs::path& folder, const CheckpointContents& contents,
                      const std::function<void()>& before_commit) {
  make_folders(parent_folder(folder));
  SnapshotWriter writer(folder);
  write_state(writer.file(kStateFile), contents.table, contents.state);
  atomic_write_file(writer.file(kFactsFile), facts_text(contents.facts));
  atomic_write_file(writer.file(kConfigFile), contents.config_text);
  atomic_write_file(writer.file(kDrafterFile), write_drafter_config(drafter_config_file(contents.drafter)));
  atomic_write_file(writer.file(kChoicesFile), contents.choices_text);
  before_commit();
  writer.commit();
}

CheckpointFacts read_checkpoint_facts(const fs::path& folder) {
  constexpr std::int64_t kMostEpochs =
      std::numeric_limits<std::int32_t>::max();  // random numbers are keyed by it
  const std::string file = (folder / kFactsFile).string();
  const JsonValue json = parse_json(read_text_file(file), file);
  const JsonFields fields(file, "", json);
  const JsonFields counters = fields.object("counters"), position = fields.object("position");
  CheckpointFacts facts{.step = fields.integer("step", {}),
                        .counters = {.updates = counters.integer("updates", {}),
                                     .skipped = counters.integer("skipped", {}),
                                     .skipped_in_a_row = counters.integer("skipped_in_a_row", {})},
                        .position = {.epoch = position.integer("epoch", {.least = 0, .most = kMostEpochs}),
                                     .place = position.integer("place", {})},
                        .wall_s = fields.number("wall_s", {}),
                        .data = read_identity(fields.object("data"))};
  if (const auto target = fields.find_object("target")) facts.target = read_target_identity(*target);
  if (const auto evaluation = fields.find_object("evaluation")) {
    facts.evaluation = read_evaluation(*evaluation);
    if (const auto data = evaluation->find_object("data")) facts.evaluated_on = read_identity(*data);
  }
  return facts;
}

std::string read_checkpoint_config(const fs::path& folder) { return read_text_file(folder / kConfigFile); }

ProductChoices read_checkpoint_choices(const fs::path& folder) {
  const std::string file = (folder / kChoicesFile).string();
  if (!fs::exists(file)) {
    throw Error(
        fmt::format("{}: expected the choices of products, found none: the checkpoint is of an older "
                    "draftsmith. {}",
                    file, kRetuneAdvice));
  }
  return ProductChoices(parse_choices(read_text_file(file), file), file);
}

DrafterShape read_checkpoint_drafter(const fs::path& folder) {
  const std::string file = (folder / kDrafterFile).string();
  return drafter_shape(parse_drafter_config(read_text_file(file), file));
}

void read_checkpoint_state(const fs::path& folder, const WeightTable& table, const TrainedState& state) {
  const SafetensorsFile file(folder / kStateFile);
  for (const Part& part : kParts) {
    for (const WeightEntry& entry : table.entries) {
      const TensorEntry& tensor = file.at(part.prefix + entry.name);
      check_shape(tensor, entry.dimensions());
      const Vector<float> values = (state.*part.values).slice(entry.offset, entry.size());
      read_as(tensor, std::span<float>(values.data, static_cast<std::size_t>(values.size)));
    }
  }
}

void warn_of_incomplete_checkpoints(const RunFolder& folder, std::int64_t after) {
  for (const std::string& gap : gaps_in_checkpoints(folder, after)) {
    log_warning(fmt::format("passed over a checkpoint that is not complete: {}", gap));
  }
}

std::optional<std::string> damage_of(const fs::path& folder) {
  try {
    verify_snapshot(folder, {.advice = "the checkpoint is damaged"});
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

CheckpointFolder newest_checkpoint(const RunFolder& folder) {
  const std::vector<CheckpointFolder> all = list_checkpoints(folder);
  if (all.empty()) {
    throw Error(fmt::format("{}. Begin anew with --overwrite", no_complete_checkpoint(folder)));
  }
  warn_of_incomplete_checkpoints(folder, all.back().step);
  const auto damage = damage_of(all.back().path);
  if (!damage) return all.back();
  for (auto older = all.rbegin() + 1; older != all.rend(); ++older) {
    if (damage_of(older->path)) continue;
    throw Error(fmt::format("{}. The checkpoint of step {} is whole: remove {} to resume from it", *damage,
                            older->step, all.back().path.string()));
  }
  throw Error(fmt::format("{}. No older checkpoint is whole: begin anew with --overwrite", *damage));
}

std::optional<CheckpointFacts> newest_evaluated(const RunFolder& folder) {
  const std::vector<EvaluatedCheckpoint> all = evaluated_checkpoints(folder);
  return all.empty() ? std::nullopt : std::optional(all.back().facts);
}

std::optional<CheckpointFolder> best_checkpoint(const RunFolder& folder) {
  const std::vector<EvaluatedCheckpoint> all = evaluated_checkpoints(folder);
  if (all.empty()) return std::nullopt;
  const auto best = best_of(all, all.back().facts.evaluated_on);
  return best ? std::optional(best->folder) : std::nullopt;
}

double best_acceptance(const RunFolder& folder, const std::optional<CorpusIdentity>& evaluated_on) {
  const auto best = best_of(evaluated_checkpoints(folder), evaluated_on);
  return best ? best->facts.evaluation->acceptance : 0;
}

bool prune_checkpoints(const RunFolder& folder, std::int64_t keep, WhileExported while_exported) {
  const auto lock = while_exported == WhileExported::wait ? FolderLock::wait(folder.checkpoints())
                                                          : FolderLock::if_free(folder.checkpoints());
  if (!lock) return false;
  const std::vector<CheckpointFolder> all = list_checkpoints(folder);
  const auto best = best_checkpoint(folder);
  for (std::int64_t i = 0; i + keep < std::ssize(all); ++i) {
    if (!best || best->step != all[i].step) remove_checkpoint(all[i]);
  }
  return true;
}

}  // namespace draftsmith
