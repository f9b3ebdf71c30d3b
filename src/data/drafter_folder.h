// A drafter on disk in the z-lab layout: config.json and model.safetensors, the tensors in bf16 under bare
// names. Loaders ignore a name that they do not know and serve random weights instead, so reading and writing
// hold every name and shape against the list that the configuration implies.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/drafter_config.h"
#include "data/tensor_store.h"

namespace draftsmith {

// Constant after construction: any thread may read it.
class DrafterFolder {
 public:
  // Names may carry the prefix "model.", all of them or none. An Error names the tensors that are missing or
  // unknown, or the first of another shape.
  explicit DrafterFolder(const std::filesystem::path& folder);

  const DrafterConfigFile& config() const { return config_; }
  // By bare name; the name must be one of drafter_tensors().
  const TensorEntry& tensor(std::string_view name) const;

 private:
  DrafterConfigFile config_;
  TensorStore store_;
  std::string prefix_;
};

struct DrafterTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::span<const float> values;  // row-major
};

// Writes both files into `folder`, which is made when it is not there; each appears whole or not at all, the
// weights first. Values are rounded to bf16, and config.json says so. `tensors` must be those of
// drafter_tensors(config), in any order.
void write_drafter_folder(const std::filesystem::path& folder, DrafterConfigFile config,
                          const std::vector<DrafterTensor>& tensors);

}  // namespace draftsmith
