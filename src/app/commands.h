// The subcommands: one function each, in <name>_command.cpp, called with what app/command_line.cpp read. A
// command prints its result to stdout and returns the process's exit code; what the world did wrong is an
// Error.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/decoding.h"
#include "generate/sampler.h"

namespace draftsmith {

// 129, 130 and 143 are a run or an import that SIGHUP, SIGINT or SIGTERM stopped.
inline constexpr int kExitDone = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;

int run_devices();

struct InspectArguments {
  std::string path;  // a .safetensors file, or the folder of a model, a run or a checkpoint
};
int run_inspect(const InspectArguments& arguments);

struct ImportArguments {
  std::string source;  // a .gguf file
  std::string folder;
  std::string dtype = "auto";  // or "bf16", "f32"
  bool overwrite = false;      // replace the folder if it is there
};
int run_import(const ImportArguments& arguments);

struct TrainArguments {
  std::string config;                  // run.yaml
  std::vector<std::string> overrides;  // "train.steps=800"
  bool resume = false;                 // go on from the newest checkpoint in the output folder
  bool retune = false;                 // resume with products chosen anew
  bool overwrite = false;              // remove the run in the output folder first
};
int run_train(const TrainArguments& arguments);

struct PlanArguments {
  std::string config;
  std::vector<std::string> overrides;
  bool verbose = false;  // list the matrix products
  bool measure = false;  // set the run up and time its roles
};
int run_plan(const PlanArguments& arguments);

struct ExportArguments {
  std::string run;                  // its folder
  std::string checkpoint = "best";  // or last, or a step
};
int run_export(const ExportArguments& arguments);

struct EvalArguments {
  DecodingArguments decoding;
  SamplingSettings sampling;
  std::string data;                // JSONL of conversations; empty: the run's
  std::string output;              // eval.json; empty: in the run's folder, or nowhere
  std::int64_t conversations = 0;  // the first so many; 0: all
  std::int64_t max_new_tokens = 256;
};
int run_eval(const EvalArguments& arguments);

struct GenerateArguments {
  DecodingArguments decoding;
  SamplingSettings sampling;
  std::string prompt;  // a user's message
  std::string raw;     // or the text itself, without a chat template
  std::int64_t max_new_tokens = 256;
  bool show_blocks = false;
  bool plain = false;  // the target alone, a token at a time
  bool ids = false;    // print token ids instead of text
};
int run_generate(const GenerateArguments& arguments);

}  // namespace draftsmith
