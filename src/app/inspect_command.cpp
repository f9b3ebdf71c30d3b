// Shows what a folder or a file holds, from its headers alone.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/core.h>

#include "app/commands.h"
#include "base/error.h"
#include "data/file.h"
#include "data/json.h"
#include "data/safetensors.h"
#include "data/tensor_store.h"

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

void inspect_folder(const fs::path& folder) {
  const fs::path config = folder / "config.json";
  const bool has_config = fs::exists(config);
  const bool has_weights =
      fs::exists(folder / "model.safetensors") || fs::exists(folder / "model.safetensors.index.json");
  if (!has_config && !has_weights) {
    throw Error(
        fmt::format("{}: expected a model folder, with config.json or model.safetensors; it has neither",
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
