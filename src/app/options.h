// Every option of a run, declared once: its dotted name, type, allowed range, help, and its place in
// RunConfig. Reading run.yaml, overrides on the command line, the saved form, suggestions for misspelt keys
// and the list that `train --help` prints all walk this table. The default is the one that RunConfig is born
// with.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/run_config.h"

namespace draftsmith {

enum class ValueType { flag, integer, real, text, choice };

using OptionScalar = std::variant<bool, std::int64_t, double, std::string>;

// One scalar, or the entries of a list. Empty means "not said": the rule decides.
using OptionValue = std::vector<OptionScalar>;

struct AllowedIntegers {
  std::int64_t least;
  std::int64_t most;
};

struct AllowedReals {
  double least;
  double most;
  bool excludes_least = false;
  bool excludes_most = false;
};

struct Option {
  std::string_view name;  // as in "train.optimizer.lr"
  std::string_view help;
  ValueType type;
  bool is_list = false;
  bool is_required = false;
  bool may_be_auto = false;               // the word auto, or null, leaves it to the rule
  bool may_be_null = false;               // null leaves it out
  AllowedIntegers integers{};             // for ValueType::integer, of each entry
  AllowedReals reals{};                   // for ValueType::real, of each entry
  std::vector<std::string_view> choices;  // for ValueType::choice, of each entry
  AllowedIntegers entries{1, 4096};       // of a list
  std::function<OptionValue(const RunConfig&)> get;
  std::function<void(RunConfig&, const OptionValue&)> set;  // takes what is_allowed() accepts
};

// In the order in which they are saved and listed.
const std::vector<Option>& all_options();

const Option* find_option(std::string_view name);

// True when the scalar has the option's type and lies in its range. An integer is a fine real; a real that float32
// would take for 0 is not.
bool is_allowed(const Option& option, const OptionScalar& scalar);

// What allowed_text() leaves open about a scalar that is not allowed, typed as `typed`; may be empty.
std::string refusal_hint(const Option& option, const OptionScalar& scalar, const std::string& typed);

// As in "an integer from 2 to 32" or "a list of 2 numbers from 0 to below 1".
std::string allowed_text(const Option& option);

// As in a YAML file; reals are written so that they read back to the same bits.
std::string scalar_text(const OptionScalar& scalar);

// Name, default, allowed values and help of every option, a line or two each.
std::string option_reference();

// The option or section whose name is nearest to `name`, which is none of them; empty when none is near. A key in
// the same section is preferred to an equally near one elsewhere.
std::string nearest_known_key(std::string_view name);

}  // namespace draftsmith
