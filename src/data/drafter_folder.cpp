#include "data/drafter_folder.h"

#include <algorithm>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "base/error.h"
#include "base/nearest.h"
#include "data/file.h"
#include "data/safetensors_writer.h"

namespace draftsmith {
namespace {

constexpr std::string_view kPrefix = "model.";
constexpr std::string_view kConfigName = "config.json";

DrafterConfigFile read_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kConfigName;
  return parse_drafter_config(read_text_file(path), path.string());
}

// At most five, since a wrong file has hundreds.
std::string list_names(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  if (names.size() <= kShown) return join(names, ", ");
  const std::vector<std::string> first(names.begin(), names.begin() + kShown);
  return fmt::format("{} and {} more", join(first, ", "), names.size() - kShown);
}

void check_names(const TensorStore& store, const std::vector<DrafterTensorShape>& expected,
                 const std::string& prefix) {
  std::set<std::string> known;
  std::vector<std::string> missing, unknown;
  for (const DrafterTensorShape& tensor : expected) {
    known.insert(prefix + tensor.name);
    if (!store.find(prefix + tensor.name)) missing.push_back(tensor.name);
  }
  for (const std::string& name : store.names())
    if (!known.contains(name)) unknown.push_back(name);
  if (missing.empty() && unknown.empty()) return;
  throw Error(
      fmt::format("{}: expected the {} tensors of a DFlash drafter as config.json describes it, found "
                  "missing: {}; unknown: {}; do config.json and the weights belong together?",
                  store.folder().string(), expected.size(), missing.empty() ? "none" : list_names(missing),
                  unknown.empty() ? "none" : list_names(unknown)));
}

}  // namespace

DrafterFolder::DrafterFolder(const std::filesystem::path& folder)
    : config_(read_config(folder)), store_(folder) {
  const std::vector<DrafterTensorShape> expected = drafter_tensors(config_);
  const std::vector<std::string> names = store_.names();
  const bool prefixed = std::any_of(names.begin(), names.end(),
                                    [](const std::string& name) { return name.starts_with(kPrefix); });
  if (prefixed) prefix_ = kPrefix;
  check_names(store_, expected, prefix_);
  for (const DrafterTensorShape& tensor : expected) check_shape(this->tensor(tensor.name), tensor.shape);
}

const TensorEntry& DrafterFolder::tensor(std::string_view name) const {
  return store_.at(prefix_ + std::string(name));
}

void write_drafter_folder(const std::filesystem::path& folder, DrafterConfigFile config,
                          const std::vector<DrafterTensor>& tensors) {
  const std::vector<DrafterTensorShape> expected = drafter_tensors(config);
  DRAFTSMITH_CHECK(tensors.size() == expected.size(), "a drafter is written whole");
  make_folders(folder);
  std::vector<TensorDeclaration> declarations;
  for (const DrafterTensorShape& tensor : expected)
    declarations.push_back({.name = tensor.name, .type = FileType::bf16, .shape = tensor.shape});
  SafetensorsWriter writer(folder / "model.safetensors", std::move(declarations));
  for (const DrafterTensorShape& wanted : expected) {
    const auto given = std::find_if(tensors.begin(), tensors.end(),
                                    [&](const DrafterTensor& tensor) { return tensor.name == wanted.name; });
    DRAFTSMITH_CHECK(given != tensors.end() && given->shape == wanted.shape,
                     "the tensors are those that the configuration implies");
    writer.write(wanted.name, given->values);
  }
  writer.finish();
  config.decoder.dtype = "bfloat16";
  atomic_write_file(folder / kConfigName, write_drafter_config(config));
}

}  // namespace draftsmith
