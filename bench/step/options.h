// What step_bench is asked to measure: its command line.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device/device.h"

namespace draftsmith::bench {

enum class Work { drafter, prefill, decode, demo_memory };

// all: every token is supervised, as in the reference implementation. chat: turns of a user, which are not, and of an
// assistant, which are.
enum class MaskKind { all, chat };

struct Options {
  std::string shape = "demo";  // demo, wide or qwen3-8b (bench/step/shapes.h)
  DeviceName device;
  int threads = 0;  // of a CPU device; 0: one a core
  std::vector<Work> works = {Work::drafter, Work::prefill};
  // What fills a micro-batch; left out: the shape's own.
  std::optional<std::int64_t> documents, length, anchors, chunk_rows;
  MaskKind mask = MaskKind::all;
  int runs = 9;  // medians of so many
  bool breakdown = true;
  std::string tuning_folder;  // where choices of products are kept; empty: nowhere
  std::string json;           // a file that result lines are appended to; empty: none
  std::string torch;    // lines that bench/reference/dflash_torch.py printed, to compare with; empty: none
  std::string program;  // draftsmith itself, for demo_memory
  std::string commit = "unknown";
  std::string command;  // as it was called
};

// Throws Error for what cannot be measured; nothing when only help was wanted, which is then printed.
std::optional<Options> parse_options(int argc, char** argv);

}  // namespace draftsmith::bench
