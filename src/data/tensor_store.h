// The weights of a Hugging Face folder: model.safetensors, or else the shards that
// model.safetensors.index.json names. A shard which the index names and the folder lacks, and a tensor which
// the index promises and its shard lacks, are Errors when the folder is opened. Tensors in a shard that the
// index does not name are not seen.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "data/safetensors.h"

namespace draftsmith {

// Constant after construction: any thread may read it. Entries live as long as the object.
class TensorStore {
 public:
  explicit TensorStore(const std::filesystem::path& folder);

  // Nullptr when no file has such a tensor.
  const TensorEntry* find(std::string_view name) const;
  // An Error listing the nearest names when no file has such a tensor.
  const TensorEntry& at(std::string_view name) const;
  // Sorted.
  std::vector<std::string> names() const;
  const std::filesystem::path& folder() const { return folder_; }

 private:
  void open_shards(const std::filesystem::path& index_path);

  std::filesystem::path folder_;
  std::map<std::string, SafetensorsFile> files_;  // by file name
  std::map<std::string, const TensorEntry*, std::less<>> entries_;
};

}  // namespace draftsmith
