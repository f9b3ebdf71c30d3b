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

// Everything that is wrong, on any machine: reads no file and looks at no device. `config` is as the user said it, before fill_derived_defaults().
std::vector<ConfigFinding> check_config(const RunConfig& config);

// What is not on this machine: the target's folder, the conversations, the devices.
std::vector<ConfigFinding> check_existence(const RunConfig& config);

}  // namespace draftsmith
