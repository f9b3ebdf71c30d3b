// What must hold between options. Each option on its own is checked by its row of the option table.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "train/run_config.h"

namespace draftsmith {

struct ConfigFinding {
  std::string option;   // where to point at, as in "train.context_tokens"
  std::string message;  // what was expected, what was found, what to do
};

// Everything that is wrong. Reads no file. `config` is as the user said it, before fill_derived_defaults().
std::vector<ConfigFinding> check_config(const RunConfig& config);

// Inputs that are not there: the target's folder and the conversations.
std::vector<ConfigFinding> check_input_files(const RunConfig& config);

}  // namespace draftsmith
