// A GGUF file made into a Hugging Face folder: config.json, generation_config.json, model.safetensors,
// tokenizer.json and tokenizer_config.json. Quantised weights become plain numbers; nothing else is lost.
// Files of the llama architecture with a byte-level BPE are imported (gguf_llama.h, gguf_tokenizer.h).
#pragma once

#include <cstdint>
#include <filesystem>

#include "data/gguf_weights.h"

namespace draftsmith {

enum class ExistingImport { refuse, replace };

struct GgufImport {
  std::filesystem::path source;
  std::filesystem::path folder;
  ImportType type = ImportType::lossless;
  ExistingImport existing = ExistingImport::refuse;
  std::function<void()> before_tensor = {};  // what it throws ends the import, of which nothing is left
};

struct ImportedModel {
  std::filesystem::path folder;  // without links
  TargetConfigFile config;       // dtype is that of the weights
  std::int64_t tensors = 0;
  std::int64_t tokens = 0;
  bool has_chat_template = false;
};

// The folder appears whole or not at all: it is written aside, read back as a target is read, then renamed. Folders above
// it are made, links to it are followed, and what killed imports left beside it goes. An empty folder is filled; one that
// holds anything is replaced only if told so and if all in it is what an import writes.
// Throws Error when the source cannot be imported, the folder is not to be replaced, or the disk fails.
ImportedModel import_gguf(const GgufImport& import);

}  // namespace draftsmith
