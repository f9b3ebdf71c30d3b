#include "data/tensor_store.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "data/json.h"

namespace draftsmith {
namespace {

constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";

// Tensor name -> file name, as the index says.
std::map<std::string, std::string> read_weight_map(const std::filesystem::path& index_path) {
  const std::string source = index_path.string();
  const JsonValue index = parse_json(read_text_file(index_path), source);
  const auto* members = index.get<JsonObject>();
  const JsonValue* map = members ? find_member(*members, "weight_map") : nullptr;
  const auto* entries = map ? map->get<JsonObject>() : nullptr;
  if (!entries)
    throw Error(
        fmt::format("{}: expected an object \"weight_map\" of file names by tensor, found none; "
                    "take the index from where the model came",
                    source));
  std::map<std::string, std::string> files;
  for (const JsonMember& entry : *entries) {
    const auto* file = entry.value.get<std::string>();
    if (!file || file->empty() || *file != std::filesystem::path(*file).filename().string())
      throw Error(fmt::format("{}: tensor '{}': expected the name of a file in the same folder, found {}",
                              source, entry.key, describe_json(entry.value)));
    files.emplace(entry.key, *file);
  }
  return files;
}

}  // namespace

TensorStore::TensorStore(const std::filesystem::path& folder) : folder_(folder) {
  if (!std::filesystem::is_directory(folder))
    throw Error(
        fmt::format("{}: expected a folder with {}, found no such folder", folder.string(), kSingleFile));
  if (std::filesystem::exists(folder / kSingleFile)) {
    const auto file = files_.emplace(kSingleFile, SafetensorsFile(folder / kSingleFile)).first;
    for (const std::string& name : file->second.names()) entries_.emplace(name, file->second.find(name));
  } else if (std::filesystem::exists(folder / kIndexFile)) {
    open_shards(folder / kIndexFile);
  } else {
    throw Error(
        fmt::format("{}: expected {} or {}, found neither; other weight formats must be converted to "
                    "safetensors first",
                    folder.string(), kSingleFile, kIndexFile));
  }
}

void TensorStore::open_shards(const std::filesystem::path& index_path) {
  for (const auto& [name, file_name] : read_weight_map(index_path)) {
    auto file = files_.find(file_name);
    if (file == files_.end()) {
      if (!std::filesystem::exists(folder_ / file_name))
        throw Error(
            fmt::format("{}: expected the shard {}, which {} names for tensor '{}', found no such file; "
                        "download the missing shard",
                        folder_.string(), file_name, kIndexFile, name));
      file = files_.emplace(file_name, SafetensorsFile(folder_ / file_name)).first;
    }
    const TensorEntry* entry = file->second.find(name);
    if (!entry)
      throw Error(
          fmt::format("{}: expected tensor '{}', which {} places here, found none; index and shards "
                      "belong to different models",
                      (folder_ / file_name).string(), name, kIndexFile));
    entries_.emplace(name, entry);
  }
}

const TensorEntry* TensorStore::find(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? nullptr : found->second;
}

const TensorEntry& TensorStore::at(std::string_view name) const {
  if (const TensorEntry* entry = find(name)) return *entry;
  throw Error(fmt::format("{}: expected a tensor '{}', found none; the nearest of {} names: {}",
                          folder_.string(), name, entries_.size(),
                          join(nearest_names(name, names(), 3), ", ")));
}

std::vector<std::string> TensorStore::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_) names.push_back(name);
  return names;
}

}  // namespace draftsmith
