// Makes a Hugging Face folder of a GGUF file.
#include <map>

#include <fmt/core.h>

#include "app/commands.h"
#include "app/stop_signals.h"
#include "base/error.h"
#include "data/chat.h"
#include "data/gguf_import.h"

namespace draftsmith {
namespace {

// What keeps a chat template from being used is said now, not when a run starts.
std::string describe_chat_template(const ImportedModel& model) {
  if (!model.has_chat_template) return "none";
  try {
    ChatTemplate::load(model.folder);
    return "read";
  } catch (const Error& failure) {
    return fmt::format("written, but conversations cannot be made with it: {}", failure.what());
  }
}

void print_import(const std::string& folder, const ImportedModel& model) {
  const DecoderConfig& sizes = model.config.decoder;
  fmt::print("{}: {}, {} layers of width {}, {} tensors in {}, {} tokens; chat template: {}\n", folder,
             model.config.architectures.front(), sizes.num_hidden_layers, sizes.hidden_size, model.tensors,
             sizes.dtype, model.tokens, describe_chat_template(model));
}

}  // namespace

int run_import(const ImportArguments& arguments) {
  static const std::map<std::string, ImportType> kTypes{
      {"auto", ImportType::lossless}, {"bf16", ImportType::bf16}, {"f32", ImportType::f32}};
  const StopSignals signals("removing what is written");
  const auto stop = [&signals] {
    if (signals.received() != 0) throw Error("stopped by a signal; nothing is imported");
  };
  const GgufImport import{.source = arguments.source,
                          .folder = arguments.folder,
                          .type = kTypes.at(arguments.dtype),
                          .existing = arguments.overwrite ? ExistingImport::replace : ExistingImport::refuse,
                          .before_tensor = stop};
  try {
    print_import(arguments.folder, import_gguf(import));
    return kExitDone;
  } catch (const Error& failure) {
    if (signals.received() == 0) throw;
    fmt::print(stderr, "draftsmith: {}\n", failure.what());
    return 128 + signals.received();
  }
}

}  // namespace draftsmith
