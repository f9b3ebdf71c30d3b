// A new command is a function in commands.h, its arguments in Arguments, and an add_ function here.
#include "app/command_line.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iostream>
#include <limits>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include "app/commands.h"
#include "app/options.h"
#include "app/version.h"
#include "base/error.h"
#include "base/failure_text.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace draftsmith {
namespace {

constexpr const char* kDescription =
    "draftsmith trains DFlash drafters: small models that propose a whole block of tokens, which the target "
    "then checks in one pass.";

struct Arguments {
  InspectArguments inspect;
  ImportArguments import;
  TrainArguments train;
  PlanArguments plan;
  ExportArguments exports;
  EvalArguments eval;
  GenerateArguments generate;
};

// Set by the command that was typed.
using Chosen = std::function<int()>;

void add_devices(CLI::App& app, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("devices", "List the devices that a run can name");
  command->callback([&chosen] { chosen = [] { return run_devices(); }; });
  command->footer("Example:\n  draftsmith devices\n");
}

void add_inspect(CLI::App& app, InspectArguments& arguments, Chosen& chosen) {
  CLI::App* command =
      app.add_subcommand("inspect", "Show what a model, a run, a checkpoint or a safetensors file holds");
  command
      ->add_option("path", arguments.path, "Folder of a model, a run or a checkpoint, or a .safetensors file")
      ->required();
  command->callback([&] { chosen = [&] { return run_inspect(arguments); }; });
  command->footer(
      "Prints the configuration, then type, shape and bytes of every tensor, read from headers alone. Of a "
      "run "
      "it lists the checkpoints and how they were evaluated; a checkpoint is verified by its checksums.\n\n"
      "Examples:\n"
      "  draftsmith inspect examples/demo/target\n"
      "  draftsmith inspect runs/demo\n"
      "  draftsmith inspect model.safetensors\n");
}

void add_import(CLI::App& app, ImportArguments& arguments, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("import", "Make a Hugging Face folder of a GGUF file");
  command->add_option("source", arguments.source, "A .gguf file of the llama architecture")->required();
  command->add_option("folder", arguments.folder, "The folder to make")->required();
  command
      ->add_option("--dtype", arguments.dtype,
                   "Type of the weights; auto keeps every value: bf16 where all of a tensor's exist in it, "
                   "else float32")
      ->check(CLI::IsMember({"auto", "bf16", "f32"}))
      ->capture_default_str();
  command->add_flag("--overwrite", arguments.overwrite,
                    "Replace the folder if it holds an imported model and nothing else");
  command->callback([&] { chosen = [&] { return run_import(arguments); }; });
  command->footer(
      "Weights may be F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0; the tokenizer and the chat template "
      "come along.\n\n"
      "Example:\n"
      "  draftsmith import SmolLM2-135M-Instruct.Q4_1.gguf targets/smollm2\n");
}

void add_config(CLI::App& command, std::string& config, std::vector<std::string>& overrides) {
  command.add_option("config", config, "The run's configuration, as in examples/demo/run.yaml")->required();
  command.add_option(
      "overrides", overrides,
      "Options that win over the file, as in train.steps=800; null leaves one out, as in data.eval=null");
}

void add_train(CLI::App& app, TrainArguments& arguments, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("train", "Train a drafter for a target");
  add_config(*command, arguments.config, arguments.overrides);
  CLI::Option* const resume = command->add_flag(
      "--resume", arguments.resume, "Go on from the newest checkpoint in the output folder, bit for bit");
  command
      ->add_flag("--retune", arguments.retune,
                 "Resume with products chosen anew, as another card, library or thread count needs: the bits "
                 "then differ from those of a run that was not interrupted")
      ->needs(resume);
  command->add_flag("--overwrite", arguments.overwrite, "Remove the run in the output folder and begin anew")
      ->excludes(resume);
  command->callback([&] { chosen = [&] { return run_train(arguments); }; });
  command->footer([] {
    return "SIGINT, SIGTERM or SIGHUP finishes the step, writes a checkpoint and says how to resume; a "
           "second one "
           "stops "
           "at once.\n\nExamples:\n"
           "  draftsmith train run.yaml\n"
           "  draftsmith train run.yaml train.steps=800 output=runs/longer\n"
           "  draftsmith train run.yaml --resume\n"
           "  draftsmith train run.yaml --resume --retune\n\nOptions of run.yaml:\n" +
           option_reference();
  });
}

// CLI11's own checks take what wraps or saturates, and name ranges in floating point.
CLI::Validator whole_number(std::uint64_t least, std::uint64_t most) {
  return CLI::Validator(
      [least, most](const std::string& text) {
        std::uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [parsed, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc{} && parsed == end && value >= least && value <= most) return std::string();
        return fmt::format("expected an integer from {} to {}, found {}", least, most, text);
      },
      "");
}

void add_decoding_options(CLI::App& command, DecodingArguments& arguments, std::int64_t& max_new_tokens) {
  command
      .add_option("drafter", arguments.drafter,
                  "A run's folder, whose export is taken, or a drafter's folder in the z-lab layout")
      ->required();
  command.add_option("--target", arguments.target, "The target's Hugging Face folder (default: the run's)");
  command.add_option("--max-new-tokens", max_new_tokens, "Longest output, in tokens")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--compute", arguments.compute, "What weights and activations are stored as")
      ->check(CLI::IsMember({"float32", "bf16"}))
      ->capture_default_str();
  command.add_option("--device", arguments.device, "The device that holds both models")
      ->capture_default_str();
  command.add_option("--threads", arguments.threads, "Threads of the device (default: the machine's cores)")
      ->check(whole_number(1, 1024));
}

void add_sampling_options(CLI::App& command, SamplingSettings& sampling) {
  command
      .add_option("--temperature", sampling.temperature,
                  "0 takes the target's most probable tokens; above, draws from its softmax at this")
      ->capture_default_str();
  command
      .add_option("--top-p", sampling.top_p,
                  "Draw only from the most probable tokens whose mass reaches this, above 0 and up to 1")
      ->capture_default_str();
  command.add_option("--seed", sampling.seed, "Of the drawn tokens; the same seed, the same output")
      ->check(whole_number(0, std::numeric_limits<std::uint64_t>::max()))
      ->capture_default_str();
  command.add_flag("--greedy-drafts", sampling.greedy_drafts,
                   "Propose the drafter's most probable tokens at every temperature, not draws from it");
}

void add_eval(CLI::App& app, EvalArguments& arguments, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("eval", "Measure a drafter by decoding conversations for real");
  add_decoding_options(*command, arguments.decoding, arguments.max_new_tokens);
  add_sampling_options(*command, arguments.sampling);
  command->add_option("--data", arguments.data, "Conversations, JSON lines (default: the run's data.eval)");
  command->add_option("--conversations", arguments.conversations, "Only the first so many (default: all)")
      ->check(whole_number(1, 1'000'000'000));
  command->add_option("--output", arguments.output, "Where eval.json goes (default: the run's folder)");
  command->callback([&] { chosen = [&] { return run_eval(arguments); }; });
  command->footer(
      "Every prompt is decoded speculatively and plainly. Greedy outputs are compared; at a temperature "
      "above "
      "0 both are draws from the target's distribution. "
      "Tokens per cycle is what a draft cycle commits: accepted proposals and the target's own token.\n\n"
      "Examples:\n"
      "  draftsmith eval runs/demo\n"
      "  draftsmith eval some-drafter --target some-target --data eval.jsonl --conversations 50\n");
}

void add_generate(CLI::App& app, GenerateArguments& arguments, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("generate", "Answer a prompt by speculative decoding");
  add_decoding_options(*command, arguments.decoding, arguments.max_new_tokens);
  add_sampling_options(*command, arguments.sampling);
  CLI::Option* prompt = command->add_option("--prompt", arguments.prompt, "A user's message");
  CLI::Option* raw =
      command->add_option("--raw", arguments.raw, "Text to continue as it is, without a chat template");
  prompt->excludes(raw);
  CLI::Option* blocks = command->add_flag(
      "--show-blocks", arguments.show_blocks,
      "Mark what each cycle accepted: in colour on a terminal without NO_COLOR, else [accepted|run]bonus");
  command->add_flag("--plain", arguments.plain, "Decode with the target alone, to compare with")
      ->excludes(blocks);
  command
      ->add_flag("--ids", arguments.ids, "Print the token ids of the prompt and of the output, a line each")
      ->excludes(blocks);
  command->callback([&] { chosen = [&] { return run_generate(arguments); }; });
  command->footer(
      "The output ends at a stop token of the target's configuration or at the limit.\n\n"
      "Examples:\n"
      "  draftsmith generate runs/demo --prompt \"Count from 3 in steps of 4, 10 numbers.\" --show-blocks\n"
      "  draftsmith generate some-drafter --target some-target --raw \"Once upon a time\"\n");
}

void add_plan(CLI::App& app, PlanArguments& arguments, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("plan", "Say what a run would take, and whether it fits");
  add_config(*command, arguments.config, arguments.overrides);
  command->add_flag("--verbose", arguments.verbose, "List the matrix products and their algorithms too");
  command->add_flag(
      "--measure", arguments.measure,
      "Set the run up and time its roles on the devices: expected speed, waits and the best split");
  command->callback([&] { chosen = [&] { return run_plan(arguments); }; });
  command->footer(
      "Counts the bytes of every device by purpose with the code that lays them out, without allocating "
      "them, and prepares no product unless they are to be listed. How the roles compare is then counted "
      "work, not "
      "measured. With --measure the devices are set up as for the run, memory and all, and a few whole "
      "passes of target "
      "and drafter are timed on a micro-batch of the data; nothing is written to the output folder. "
      "Exit code 1 when there is not enough memory, with the largest budgets that would fit.\n\n"
      "Examples:\n  draftsmith plan examples/demo/run.yaml train.context_tokens=4096\n"
      "  draftsmith plan examples/demo/run.yaml --measure\n");
}

void add_export(CLI::App& app, ExportArguments& arguments, Chosen& chosen) {
  CLI::App* command = app.add_subcommand("export", "Write a run's drafter for serving");
  command->add_option("run", arguments.run, "The run's folder")->required();
  command
      ->add_option("--checkpoint", arguments.checkpoint,
                   "best (by held-out acceptance, the earlier of equals), last, or a step")
      ->capture_default_str();
  command->callback([&] { chosen = [&] { return run_export(arguments); }; });
  command->footer(
      "Writes RUN/export in the z-lab layout that SGLang and vLLM load: config.json, model.safetensors in "
      "bf16, README.md. What was written is read again and compared.\n\n"
      "Examples:\n  draftsmith export runs/demo\n  draftsmith export runs/demo --checkpoint last\n");
}

int report_usage(const CLI::App& app, const CLI::ParseError& error,
                 const std::vector<std::string>& arguments) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  const bool names_no_command = !arguments.empty() && !arguments.front().starts_with('-') &&
                                std::find(names.begin(), names.end(), arguments.front()) == names.end();
  if (names_no_command) {
    const std::string& typed = arguments.front();
    const std::string nearest = nearest_names(typed, names, 1).front();
    fmt::print(
        stderr, "draftsmith: there is no command '{}'{}. All of them: {}\n", typed,
        is_near(edit_distance(typed, nearest), typed.size()) ? "; the nearest is '" + nearest + "'" : "",
        join(names, ", "));
  } else {
    const auto chosen = app.get_subcommands();
    fmt::print(stderr, "draftsmith: {}\nTry: draftsmith {}--help\n", error.what(),
               chosen.empty() ? "" : chosen.front()->get_name() + " ");
  }
  return kExitUsage;
}

int run_chosen(const Chosen& chosen) {
  try {
    return chosen();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "draftsmith: %s\n",
                 printable(failure_text(error)).c_str());  // fmt throws where nobody reads
    return kExitError;
  }
}

}  // namespace

int run_command_line(const std::vector<std::string>& arguments) {
  CLI::App app(kDescription, "draftsmith");
  app.set_help_flag("-h,--help", "Explain the command");
  app.set_version_flag("--version", version_text,
                       "Name the version, the compiler, CPU features and libraries");
  app.require_subcommand(1);
  app.footer(
      "Each command explains itself: draftsmith COMMAND --help\n\n"
      "Exit codes: 0 done, 1 an error (its message is on stderr), 2 wrong usage, 129, 130 and 143 stopped by "
      "a "
      "signal\n");

  Arguments read;
  Chosen chosen;
  add_devices(app, chosen);
  add_inspect(app, read.inspect, chosen);
  add_import(app, read.import, chosen);
  add_train(app, read.train, chosen);
  add_plan(app, read.plan, chosen);
  add_export(app, read.exports, chosen);
  add_eval(app, read.eval, chosen);
  add_generate(app, read.generate, chosen);
  try {
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // as CLI11 takes them
    app.parse(std::move(reversed));
  } catch (const CLI::Success& asked) {  // --help and --version
    return app.exit(asked, std::cout, std::cerr);
  } catch (const CLI::ParseError& error) {
    return report_usage(app, error, arguments);
  }
  return run_chosen(chosen);
}

}  // namespace draftsmith
