// run.yaml and overrides, read into a RunConfig. Everything that is wrong with them is one Error: a line
// each, with file, line and column (or the override), what was expected and found, and the nearest known key.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train/run_config.h"

namespace draftsmith {

// Of the files, the folder and the devices that a configuration names, on this machine. A run's own configuration may come
// from another one.
enum class Existence { checked, unchecked };

// `overrides` are as typed on the command line, "train.steps=800": the value is read as YAML, and a mapping
// sets several options of a section. They win over the file; naming one option twice is an error.
struct ConfigText {
  std::string name;  // of the file, for messages
  std::string text;
  std::vector<std::string> overrides;
  Existence existence = Existence::unchecked;
};

// Checked, with derived defaults filled in.
RunConfig parse_config(const ConfigText& source);

struct ConfigFile {
  std::filesystem::path path;
  std::vector<std::string> overrides;
  Existence existence = Existence::checked;
};

RunConfig load_config(const ConfigFile& file);

// YAML that parse_config() reads back to the same values, bit for bit. Options left to a rule that the
// configuration alone cannot answer are left out.
std::string save_resolved(const RunConfig& config);

}  // namespace draftsmith
