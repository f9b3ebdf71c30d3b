// The subcommands: one function each, in <name>_command.cpp, called with what app/command_line.cpp read. A
// command prints its result to stdout and returns the process's exit code; what the world did wrong is an
// Error.
#pragma once

#include <string>

namespace draftsmith {

// 130 and 143 are a run that SIGINT or SIGTERM stopped.
inline constexpr int kExitDone = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;

int run_devices();

struct InspectArguments {
  std::string path;  // a .safetensors file, or a folder with config.json or model files
};
int run_inspect(const InspectArguments& arguments);

}  // namespace draftsmith
