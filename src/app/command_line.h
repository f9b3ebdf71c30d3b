// What a person types: which command, with which arguments, and what --help says of them.
#pragma once

#include <string>
#include <vector>

namespace draftsmith {

// Runs a whole command and returns the exit code of app/commands.h. `arguments` are without the program's
// name. Errors, one `draftsmith: ...` line or more, go to stderr.
int run_command_line(const std::vector<std::string>& arguments);

}  // namespace draftsmith
