// The program: everything is in app/command_line.h, where tests reach it.
#include <cstdio>

#include "app/command_line.h"
#include "app/commands.h"

int main(int argc, char** argv) {
  const int code = draftsmith::run_command_line({argv + 1, argv + argc});
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  std::fprintf(stderr, "draftsmith: the output could not be written to its end\n");
  return code == draftsmith::kExitDone ? draftsmith::kExitError : code;
}
