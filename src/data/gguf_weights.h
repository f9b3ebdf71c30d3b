// The weights of a GGUF file, converted to a safetensors file under Hugging Face names.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "data/gguf_llama.h"

namespace draftsmith {

// `lossless`: bf16 for a tensor whose values all exist in bf16, float32 for the others. The other two are
// for all tensors; bf16 rounds to nearest even.
enum class ImportType { lossless, bf16, f32 };

struct WeightsImport {
  const GgufFile& file;
  const std::vector<LlamaTensor>& tensors;  // have passed check_llama_tensors()
  ImportType type = ImportType::lossless;
  std::function<void()> before_tensor;  // called before each; what it throws ends the import
};
// Writes `path`, one row at a time. Returns the dtype that config.json should name: the widest in the file. An Error
// names a tensor with a value that is not finite.
std::string write_gguf_weights(const WeightsImport& import, const std::filesystem::path& path);

}  // namespace draftsmith
