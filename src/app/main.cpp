// The program: everything is in app/command_line.h, where tests reach it.
#include "app/command_line.h"

int main(int argc, char** argv) { return draftsmith::run_command_line({argv + 1, argv + argc}); }
