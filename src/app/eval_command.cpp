// Decodes conversations with a drafter and without, and prints what the drafter is worth.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include <fmt/core.h>
#include <unistd.h>

#include "app/commands.h"
#include "base/error.h"
#include "base/terminal.h"
#include "data/conversations.h"
#include "generate/evaluate.h"

namespace draftsmith {
namespace {

namespace fs = std::filesystem;

fs::path conversations_file(const EvalArguments& arguments, const DecodingPaths& paths) {
  const fs::path file = arguments.data.empty() ? paths.data : fs::path(arguments.data);
  if (file.empty()) throw Error("name the conversations to decode with --data FILE.jsonl");
  if (arguments.data.empty() && !fs::exists(file)) {
    throw Error(fmt::format("{}: there are no conversations here; {}", file.string(),
                            origin_in_run(*paths.run, "--data FILE.jsonl")));
  }
  return file;
}

// Where eval.json goes; empty: nowhere.
fs::path output_file(const EvalArguments& arguments, const DecodingPaths& paths) {
  if (!arguments.output.empty()) return arguments.output;
  return paths.run ? *paths.run / "eval.json" : fs::path();
}

// A count that moves in place on a terminal that can; nothing elsewhere.
std::function<void(std::int64_t)> show_progress(std::int64_t total) {
  if (!follows_escapes(STDERR_FILENO)) return {};
  return [total](std::int64_t done) {
    fmt::print(stderr, "\r{}/{} conversations{}", done, total, done == total ? "\r\033[K" : "");
    std::fflush(stderr);
  };
}

}  // namespace

int run_eval(const EvalArguments& arguments) {
  check_sampling_options(arguments.sampling);
  const DecodingPaths paths = find_decoding_paths(arguments.decoding);
  const fs::path file = conversations_file(arguments, paths);
  const fs::path output = output_file(arguments, paths);
  if (!output.empty()) check_evaluation_path(output);
  const DecodingModels models = load_decoding_models(arguments.decoding, paths);
  const Corpus corpus = read_conversations({.file = file,
                                            .tokenizer = models.tokenizer,
                                            .target = paths.target,
                                            .table_rows = models.target.vocabulary,
                                            .max_tokens = models.target.max_positions});
  const std::int64_t conversations =
      arguments.conversations > 0 ? std::min(arguments.conversations, corpus.size()) : corpus.size();
  const EvaluationRun run{.corpus = corpus,
                          .conversations = conversations,
                          .generation = {.max_new_tokens = arguments.max_new_tokens,
                                         .stop_tokens = models.stop_tokens,
                                         .sampling = arguments.sampling},
                          .progress = show_progress(conversations)};
  const auto decoder = start_decoder(models, longest_sequence(run));
  std::cout << fmt::format("drafter {}\ntarget  {}\ndata    {}, {} of {} conversations\n\n",
                           paths.drafter.string(), paths.target.string(), file.string(), conversations,
                           corpus.size())
            << std::flush;
  const EvaluationReport report = evaluate_drafter(*decoder, run);
  print_evaluation(std::cout, report);
  if (!output.empty()) {
    write_evaluation(output, report);
    std::cout << "written to " << output.string() << "\n";
  }
  std::cout << std::flush;
  return kExitDone;
}

}  // namespace draftsmith
