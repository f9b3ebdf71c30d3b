// Answers one prompt speculatively, printing while the tokens come.
#include <iostream>

#include <fmt/format.h>
#include <unistd.h>

#include "app/block_printer.h"
#include "app/commands.h"
#include "base/error.h"
#include "base/terminal.h"
#include "data/chat.h"
#include "data/utf8.h"
#include "generate/speculate.h"

namespace draftsmith {
namespace {

// Offsets count from the text's own beginning, not that of the template around it.
void check_utf8(const char* option, const std::string& text) {
  const std::size_t valid = valid_utf8_bytes(text);
  if (valid == text.size()) return;
  throw Error(fmt::format("{} is not UTF-8: its byte at offset {} starts no character", option, valid));
}

std::vector<std::int32_t> encode_prompt(const GenerateArguments& arguments, const DecodingModels& models) {
  check_utf8("--raw", arguments.raw);
  check_utf8("--prompt", arguments.prompt);
  if (!arguments.raw.empty()) return models.tokenizer.encode(arguments.raw);
  if (arguments.prompt.empty()) throw Error("the prompt is empty; give --prompt TEXT or --raw TEXT");
  const Message message{.role = "user", .content = arguments.prompt};
  return ChatTemplate::load(models.target_folder).encode_prompt(models.tokenizer, {&message, 1});
}

BlockStyle block_style(const GenerateArguments& arguments) {
  if (!arguments.show_blocks) return BlockStyle::hidden;
  return wants_colours(STDOUT_FILENO) ? BlockStyle::colours : BlockStyle::brackets;
}

void print_ids(std::span<const std::int32_t> ids) { fmt::print("{}\n", fmt::join(ids, " ")); }

void print_summary(const GenerateArguments& arguments, const PromptState& prompt,
                   const GenerationResult& result) {
  fmt::print(stderr, "{} tokens after a prompt of {}; ", result.tokens.size(), prompt.length);
  if (arguments.plain) {
    fmt::print(stderr, "decoded plainly");
  } else {
    fmt::print(stderr, "{} cycles", result.cycles.size());
  }
  // The first token is the prompt's own choice: without a second nothing was measured.
  if (!result.cycles.empty()) {
    std::int64_t committed = 0;
    for (const DraftCycle& cycle : result.cycles) committed += cycle.committed;
    fmt::print(stderr, ", {:.2f} tokens a cycle",
               static_cast<double>(committed) / static_cast<double>(result.cycles.size()));
  }
  if (result.decoded() > 0)
    fmt::print(stderr, ", {:.0f} tokens a second", static_cast<double>(result.decoded()) / result.seconds);
  fmt::print(stderr, "\n");
}

}  // namespace

int run_generate(const GenerateArguments& arguments) {
  check_sampling_options(arguments.sampling);
  const DecodingPaths paths = find_decoding_paths(arguments.decoding);
  const DecodingModels models = load_decoding_models(arguments.decoding, paths);
  const std::vector<std::int32_t> prompt = encode_prompt(arguments, models);
  const auto length = static_cast<std::int64_t>(prompt.size());
  const auto decoder = start_decoder(models, length + arguments.max_new_tokens);
  const PromptState state = run_prompt(*decoder, prompt, arguments.sampling);
  const GenerationSettings settings{.max_new_tokens = arguments.max_new_tokens,
                                    .stop_tokens = models.stop_tokens,
                                    .sampling = arguments.sampling};
  BlockPrinter printer(std::cout, models.tokenizer, block_style(arguments));
  const GenerationObserver print = [&](std::span<const std::int32_t> committed, const DraftCycle* cycle) {
    if (!arguments.ids) printer.print(committed, cycle);
  };
  const GenerationResult result = arguments.plain ? decode_plainly(*decoder, state, settings)
                                                  : decode_speculatively(*decoder, state, settings, print);
  if (arguments.plain) print(result.tokens, nullptr);
  if (arguments.ids) {
    print_ids(prompt);
    print_ids(result.tokens);
  } else {
    printer.finish();
  }
  print_summary(arguments, state, result);
  return kExitDone;
}

}  // namespace draftsmith
