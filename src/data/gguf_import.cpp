#include "data/gguf_import.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/file.h"
#include "data/gguf_tokenizer.h"
#include "data/snapshot.h"
#include "data/tokenizer.h"

namespace draftsmith {
namespace {

std::string write_generation_config(const TargetConfigFile& config) {
  JsonArray eos;
  for (const std::int64_t id : config.eos_token_ids) eos.push_back({id});
  JsonObject out;
  if (config.bos_token_id) out.push_back({"bos_token_id", {*config.bos_token_id}});
  if (!eos.empty()) out.push_back({"eos_token_id", {std::move(eos)}});
  if (config.pad_token_id) out.push_back({"pad_token_id", {*config.pad_token_id}});
  return write_json({std::move(out)}, JsonLayout::indented);
}

// What is read back differs from what was meant only by a fault of ours or of the disk; what cannot be read,
// such as merges of tokens that are not there, is a fault of the source.
void read_back(const GgufImport& import, const std::filesystem::path& folder) {
  try {
    read_target_config(folder);
    read_generation_config(folder);
    Tokenizer::load(folder);
  } catch (const Error& failure) {
    throw Error(fmt::format("{}: cannot be imported, since its folder could not be read: {}",
                            import.source.string(), failure.what()));
  }
}

// Only what an import wrote is ever replaced.
void check_replaceable(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder)) return;
  const bool imported = is_complete_snapshot(folder) && std::filesystem::exists(folder / "tokenizer.json");
  if (imported) return;
  throw Error(
      fmt::format("{}: expected an imported model, found something else, which --overwrite does not "
                  "remove; name another folder",
                  folder.string()));
}

}  // namespace

ImportedModel import_gguf(const GgufImport& import) {
  if (import.existing == ExistingImport::refuse && std::filesystem::exists(import.folder))
    throw Error(fmt::format("{}: exists already; name another folder, or say --overwrite to replace it",
                            import.folder.string()));
  check_replaceable(import.folder);
  const GgufFile file(import.source);
  ImportedModel result{.config = read_gguf_llama(file)};
  const std::vector<LlamaTensor> tensors = llama_tensors(result.config);
  check_llama_tensors(file, tensors);
  const GgufTokenizerFiles tokenizer = read_gguf_tokenizer(file.metadata(), result.config.decoder.vocab_size);

  SnapshotWriter folder(import.folder);
  result.config.decoder.dtype = write_gguf_weights({file, tensors, import.type, import.before_tensor},
                                                   folder.file("model.safetensors"));
  atomic_write_file(folder.file("config.json"), write_llama_config(result.config));
  atomic_write_file(folder.file("generation_config.json"), write_generation_config(result.config));
  atomic_write_file(folder.file("tokenizer.json"), tokenizer.tokenizer);
  atomic_write_file(folder.file("tokenizer_config.json"), tokenizer.tokenizer_config);
  read_back(import, folder.folder());
  folder.commit();
  result.tensors = static_cast<std::int64_t>(tensors.size());
  result.tokens = tokenizer.tokens;
  result.has_chat_template = tokenizer.has_chat_template;
  return result;
}

}  // namespace draftsmith
