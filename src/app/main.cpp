// The program: everything is in app/command_line.h, where tests reach it.
#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

#include "app/command_line.h"
#include "app/commands.h"
#include "device/cpu/spinning.h"

namespace {

// A closed standard stream would lend its number to the next file that is opened, and messages would go there. What is
// written to a closed output fails as before, so that nobody takes it for printed.
void open_standard_streams() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) < 0)
      static_cast<void>(
          ::open("/dev/null", descriptor == STDOUT_FILENO ? O_RDONLY : O_RDWR));  // takes the lowest free
  }
}

}  // namespace

int main(int argc, char** argv) {
  draftsmith::limit_spinning(argv);
  open_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes is an error of the write
  const int code = draftsmith::run_command_line({argv + 1, argv + argc});
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return code;
  std::fprintf(stderr, "draftsmith: the output could not be written to its end\n");
  return code == draftsmith::kExitDone ? draftsmith::kExitError : code;
}
