#include "bench/step/options.h"

#include <cstdio>
#include <map>

#include <CLI/CLI.hpp>

#include "base/error.h"

namespace draftsmith::bench {
namespace {

const std::map<std::string, Work> kWorks = {{"drafter", Work::drafter},
                                            {"prefill", Work::prefill},
                                            {"decode", Work::decode},
                                            {"demo-memory", Work::demo_memory}};
const std::map<std::string, MaskKind> kMasks = {{"all", MaskKind::all}, {"chat", MaskKind::chat}};

std::string joined(int argc, char** argv) {
  std::string text = "step_bench";
  for (int i = 1; i < argc; ++i) text += std::string(" ") + argv[i];
  return text;
}

}  // namespace

std::optional<Options> parse_options(int argc, char** argv) {
  Options options;
  options.command = joined(argc, argv);
  std::string device = "cpu:0";
  CLI::App app{
      "Times the drafter's step, the target's prefill and plain decoding beside their matrix products alone"};
  app.add_option("--shape", options.shape, "demo, wide or qwen3-8b")->capture_default_str();
  app.add_option("--device", device, "cpu:0, cuda:0")->capture_default_str();
  app.add_option("--threads", options.threads, "of a CPU device; 0: one a core");
  app.add_option("--work", options.works, "drafter, prefill, decode, demo-memory; several may be named")
      ->transform(CLI::CheckedTransformer(kWorks));
  app.add_option("--documents", options.documents, "of a micro-batch");
  app.add_option("--length", options.length, "tokens of a document");
  app.add_option("--anchors", options.anchors, "of a document");
  app.add_option("--chunk-rows", options.chunk_rows, "rows of one pass through the head");
  app.add_option("--mask", options.mask, "all or chat")->transform(CLI::CheckedTransformer(kMasks));
  app.add_option("--runs", options.runs, "medians of so many")->check(CLI::Range(1, 1000));
  app.add_flag("--breakdown,!--no-breakdown", options.breakdown, "the time by kind of operation");
  app.add_option("--tuning-folder", options.tuning_folder, "where choices of products are kept");
  app.add_option("--json", options.json, "append result lines to this file");
  app.add_option("--torch", options.torch, "lines printed by bench/reference/dflash_torch.py");
  app.add_option("--program", options.program, "draftsmith itself, for demo-memory");
  app.add_option("--commit", options.commit, "named in the result lines");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::printf("%s", app.help().c_str());
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw Error(std::string(error.what()) + "; step_bench --help lists the options");
  }
  options.device = DeviceName::parse(device);
  return options;
}

}  // namespace draftsmith::bench
