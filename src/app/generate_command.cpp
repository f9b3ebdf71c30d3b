// Answers one prompt speculatively, printing while the tokens come.
#include <iostream>

#include <fmt/core.h>
#include <unistd.h>

#include "app/block_printer.h"
#include "app/commands.h"
#include "base/error.h"
#include "data/chat.h"
#include "generate/speculate.h"

namespace draftsmith {
namespace {

std::vector<std::int32_t> encode_prompt(const GenerateArguments& arguments, const DecodingModels& models) {
  if (!arguments.raw.empty()) return models.tokenizer.encode(arguments.raw);
  if (arguments.prompt.empty()) throw Error("the prompt is empty; give --prompt TEXT or --raw TEXT");
  const Message message{.role = "user", .content = arguments.prompt};
  return ChatTemplate::load(models.target_folder).encode_prompt(models.tokenizer, {&message, 1});
}

BlockStyle block_style(const GenerateArguments& arguments) {
  if (!arguments.show_blocks) return BlockStyle::hidden;
  return ::isatty(STDOUT_FILENO) != 0 ? BlockStyle::colours : BlockStyle::brackets;
}

void print_summary(const PromptState& prompt, const GenerationResult& result) {
  std::int64_t committed = 0;
  for (const DraftCycle& cycle : result.cycles) committed += cycle.committed;
  const auto cycles = static_cast<double>(result.cycles.size());
  fmt::print(stderr,
             "{} tokens after a prompt of {}; {} cycles, {:.2f} tokens a cycle, {:.0f} tokens a second\n",
             result.tokens.size(), prompt.length, result.cycles.size(),
             cycles > 0 ? static_cast<double>(committed) / cycles : 0,
             result.seconds > 0 ? static_cast<double>(result.decoded()) / result.seconds : 0);
}

}  // namespace

int run_generate(const GenerateArguments& arguments) {
  const DecodingPaths paths = find_decoding_paths(arguments.decoding);
  const DecodingModels models = load_decoding_models(arguments.decoding, paths);
  const std::vector<std::int32_t> prompt = encode_prompt(arguments, models);
  const auto length = static_cast<std::int64_t>(prompt.size());
  const auto decoder = start_decoder(models, length + arguments.max_new_tokens);
  const PromptState state = run_prompt(*decoder, prompt);
  BlockPrinter printer(std::cout, models.tokenizer, block_style(arguments));
  const GenerationResult result = decode_speculatively(
      *decoder, state, {.max_new_tokens = arguments.max_new_tokens, .stop_tokens = models.stop_tokens},
      [&](std::span<const std::int32_t> committed, const DraftCycle* cycle) {
        printer.print(committed, cycle);
      });
  printer.finish();
  print_summary(state, result);
  return kExitDone;
}

}  // namespace draftsmith
