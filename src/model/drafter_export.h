// A trained drafter as a folder in the z-lab layout: config.json, model.safetensors in bf16, and a model
// card. The inverse of model/drafter_loader.h.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "data/drafter_config.h"
#include "data/snapshot.h"
#include "model/shape.h"
#include "tensor/tensor.h"

namespace draftsmith {

DrafterConfigFile drafter_config_file(const DrafterShape& shape);

struct DrafterExport {
  const DrafterShape& shape;
  Vector<const float> weights;  // [drafter_weight_table(shape).size]
  std::string model_card;       // README.md
  std::string origin = {};      // origin.json; empty: no such file
};

// All that export_drafter writes.
inline constexpr std::string_view kExportedFiles[] = {"config.json", "model.safetensors", "README.md",
                                                      "origin.json", kChecksumFile};

// Writes the folder aside, reads it again and compares: the configuration field by field, every weight, rounded
// to bf16, bit for bit; then puts it into place as a whole (data/snapshot.h). Of an older one there only files that its
// list does not name stay. Throws Error when a weight is not finite, or what was read is not what was written: the
// older folder stays.
void export_drafter(const std::filesystem::path& folder, const DrafterExport& drafter);

}  // namespace draftsmith
