// Shows what a folder or a file holds: a model, a run, a checkpoint, a safetensors file.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "app/commands.h"
#include "base/counted.h"
#include "base/error.h"
#include "data/file.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "data/snapshot.h"
#include "data/tensor_store.h"
#include "metrics/progress.h"
#include "train/checkpoint.h"
#include "train/run_folder.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

struct NamedTensor {
  std::string name;
  const TensorEntry* entry;
};

void print_tensors(const std::vector<NamedTensor>& tensors) {
  std::size_t width = 6;
  std::int64_t elements = 0, bytes = 0;
  for (const NamedTensor& tensor : tensors) width = std::max(width, tensor.name.size());
  fmt::print("{:<{}}  {:<7}  {:>14}  {}\n", "tensor", width, "type", "bytes", "shape");
  for (const auto& [name, entry] : tensors) {
    fmt::print("{:<{}}  {:<7}  {:>14}  {}\n", name, width, file_type_name(entry->type), entry->bytes.size(),
               describe_shape(entry->shape));
    elements += entry->elements();
    bytes += static_cast<std::int64_t>(entry->bytes.size());
  }
  fmt::print("{} tensors, {} elements, {} bytes\n", tensors.size(), elements, bytes);
}

template <typename Source>
std::vector<NamedTensor> tensors_of(const Source& source) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : source.names()) tensors.push_back({name, source.find(name)});
  return tensors;
}

void inspect_file(const fs::path& path) {
  const SafetensorsFile file(path);
  for (const auto& [key, value] : file.metadata()) fmt::print("metadata {}: {}\n", key, value);
  print_tensors(tensors_of(file));
}

std::string evaluation_text(const CheckpointFacts& facts) {
  if (!facts.evaluation) return "not evaluated";
  return fmt::format("held-out loss {}, acceptance {} over {} conversations",
                     fixed_text(facts.evaluation->loss, 4), fixed_text(facts.evaluation->acceptance, 3),
                     facts.evaluation->conversations);
}

void inspect_checkpoint(const fs::path& folder) {
  verify_snapshot(folder);
  const CheckpointFacts facts = read_checkpoint_facts(folder);
  fmt::print(
      "checkpoint after step {}: {} updates, {} skipped, epoch {}, document {} of {}, {:.0f} s of training; "
      "{}\n",
      facts.step, facts.counters.updates, facts.counters.skipped, facts.position.epoch, facts.position.place,
      facts.data.documents, facts.wall_s, evaluation_text(facts));
  fmt::print("{}{}", read_checkpoint_config(folder), read_text_file(folder / "drafter.json"));
  inspect_file(folder / "state.safetensors");
}

void inspect_run(const RunFolder& run) {
  fmt::print("{}", read_text_file(run.config()));
  const auto best = best_checkpoint(run);
  const std::vector<CheckpointFolder> checkpoints = list_checkpoints(run);
  fmt::print("{}\n", counted(std::ssize(checkpoints), "checkpoint"));
  for (const CheckpointFolder& checkpoint : checkpoints) {
    fmt::print("  {}: {}{}\n", checkpoint.path.string(),
               evaluation_text(read_checkpoint_facts(checkpoint.path)),
               best && best->step == checkpoint.step ? "; the best" : "");
  }
  for (const std::string& gap : gaps_in_checkpoints(run)) fmt::print("  not complete: {}\n", gap);
  fmt::print("{}\n", fs::exists(run.exported() / "config.json") ? "exported to " + run.exported().string()
                                                                : std::string("not exported yet"));
}

void inspect_model(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  const bool has_config = fs::exists(config);
  const bool has_weights =
      fs::exists(folder / "model.safetensors") || fs::exists(folder / "model.safetensors.index.json");
  if (!has_config && !has_weights) {
    throw Error(fmt::format(
        "{}: expected a model's folder (config.json or model.safetensors), a run's or a checkpoint's; "
        "it is none of them",
        folder.string()));
  }
  if (has_config) {
    const std::string text = read_text_file(config);
    fmt::print("{}\n", write_json(parse_json(text, config.string()), JsonLayout::indented));
  }
  if (!has_weights) return;
  const TensorStore store(folder);
  print_tensors(tensors_of(store));
}

void inspect_folder(const fs::path& folder) {
  // Also of a checkpoint that lacks one of them, to say which.
  if (fs::exists(folder / "state.json") || fs::exists(folder / "drafter.json"))
    return inspect_checkpoint(folder);
  const RunFolder run{folder};
  if (fs::exists(run.config()) && fs::is_directory(run.checkpoints())) return inspect_run(run);
  inspect_model(folder);
}

}  // namespace

int run_inspect(const InspectArguments& arguments) {
  const fs::path path = arguments.path;
  if (fs::is_directory(path)) {
    inspect_folder(path);
  } else if (fs::exists(path)) {
    inspect_file(path);
  } else {
    throw Error(fmt::format("{}: there is no such file or folder; relative paths start in {}", path.string(),
                            fs::current_path().string()));
  }
  return kExitDone;
}

}  // namespace draftsmith
