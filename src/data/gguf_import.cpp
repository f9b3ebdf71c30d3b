#include "data/gguf_import.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "data/file.h"
#include "data/gguf_tokenizer.h"
#include "data/snapshot.h"
#include "data/tokenizer.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

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
void read_back(const GgufImport& import, const fs::path& folder) {
  try {
    read_target_config(folder);
    read_generation_config(folder);
    Tokenizer::load(folder);
  } catch (const Error& failure) {
    throw Error(fmt::format("{}: cannot be imported, since its folder could not be read: {}",
                            import.source.string(), failure.what()));
  }
}

constexpr std::string_view kWritten[] = {"config.json",    "generation_config.json", "model.safetensors",
                                         "tokenizer.json", "tokenizer_config.json",  kChecksumFile};

// What an import does not write, in words; empty: nothing.
std::string others_in(const fs::path& folder) {
  constexpr std::size_t kMostNames = 5;
  std::vector<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    const bool ours = std::find(std::begin(kWritten), std::end(kWritten), name) != std::end(kWritten);
    if (!ours || item.is_directory()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  const std::size_t more = names.size() - std::min(names.size(), kMostNames);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

// An empty folder is as good as none; of others only what an import wrote, and nothing else, is ever replaced. `name` is
// what errors call the folder.
void check_replaceable(const fs::path& folder, const std::string& name, ExistingImport existing) {
  if (!fs::exists(folder)) return;
  if (!fs::is_directory(folder))
    throw Error(fmt::format("{}: expected a folder, found a file; name another folder", name));
  if (fs::is_empty(folder)) return;
  if (const std::string others = others_in(folder); !others.empty()) {
    throw Error(
        fmt::format("{}: expected an empty folder or an imported model and nothing else, found {}, which "
                    "--overwrite does not remove; name another folder",
                    name, others));
  }
  const auto gap = gap_in_snapshot(folder);
  const auto* const lacking =
      std::find_if(std::begin(kWritten), std::end(kWritten),
                   [&](std::string_view file) { return !fs::is_regular_file(folder / file); });
  if (gap || lacking != std::end(kWritten)) {
    throw Error(
        fmt::format("{}: expected an imported model, found one that no import wrote or that is not whole, "
                    "which --overwrite does not remove ({}); name another folder, or remove it yourself",
                    name, gap ? *gap : fmt::format("it has no {}", *lacking)));
  }
  if (existing == ExistingImport::refuse)
    throw Error(
        fmt::format("{}: exists already; name another folder, or say --overwrite to replace it", name));
}

// The folder behind links, without a slash at its end.
fs::path place_of(const fs::path& folder) {
  if (folder.empty()) throw Error("expected the name of the folder to make, found an empty one");
  if (folder.lexically_normal() == ".")
    throw Error(fmt::format(
        "{}: expected the name of a folder, found that in which the program runs; name it from outside",
        folder.string()));
  fs::path place = fs::weakly_canonical(fs::absolute(folder));
  if (!place.has_filename()) place = place.parent_path();
  if (fs::is_symlink(place)) {
    throw Error(
        fmt::format("{}: expected a folder, found a link to {}, which is not there; name another folder",
                    folder.string(), fs::read_symlink(place).string()));
  }
  return place;
}

}  // namespace

ImportedModel import_gguf(const GgufImport& import) {
  const fs::path place = place_of(import.folder);
  check_replaceable(place, import.folder.string(), import.existing);
  const GgufFile file(import.source);
  ImportedModel result{.config = read_gguf_llama(file)};
  const std::vector<LlamaTensor> tensors = llama_tensors(result.config);
  check_llama_tensors(file, tensors);
  const GgufTokenizerFiles tokenizer = read_gguf_tokenizer(file.metadata(), result.config.decoder.vocab_size);

  make_folders(parent_folder(place));
  remove_abandoned_snapshots(place);
  SnapshotWriter folder(place);
  result.config.decoder.dtype = write_gguf_weights({file, tensors, import.type, import.before_tensor},
                                                   folder.file("model.safetensors"));
  atomic_write_file(folder.file("config.json"), write_llama_config(result.config));
  atomic_write_file(folder.file("generation_config.json"), write_generation_config(result.config));
  atomic_write_file(folder.file("tokenizer.json"), tokenizer.tokenizer);
  atomic_write_file(folder.file("tokenizer_config.json"), tokenizer.tokenizer_config);
  read_back(import, folder.folder());
  // Somebody may have put something there meanwhile.
  folder.commit(SnapshotWriter::Strangers::go, [&](const fs::path& replaced) {
    check_replaceable(replaced, import.folder.string(), import.existing);
  });
  result.folder = place;
  result.tensors = static_cast<std::int64_t>(tensors.size());
  result.tokens = tokenizer.tokens;
  result.has_chat_template = tokenizer.has_chat_template;
  return result;
}

}  // namespace draftsmith
