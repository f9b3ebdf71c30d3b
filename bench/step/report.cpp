#include "bench/step/report.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "app/machine.h"
#include "base/error.h"
#include "device/cuda/driver.h"

namespace draftsmith::bench {
namespace {

double gibibytes(std::int64_t bytes) { return static_cast<double>(bytes) / (std::int64_t{1} << 30); }

std::string rate_text(double tflops) {
  return tflops < 1 ? fmt::format("{:.0f} GFLOP/s", 1e3 * tflops) : fmt::format("{:.3g} TFLOP/s", tflops);
}

// " (goal <= 2.50: met)", or nothing without a goal.
std::string verdict(const Result& result) {
  const double value = result.ratio().value_or(result.ours);
  const auto [at_most, at_least] = result.goal;
  if (at_most) return fmt::format(" (goal <= {:.2f}: {})", *at_most, value <= *at_most ? "met" : "MISSED");
  if (at_least) return fmt::format(" (goal >= {:.2f}: {})", *at_least, value >= *at_least ? "met" : "MISSED");
  return "";
}

std::string today() { return fmt::format("{:%Y-%m-%d}", std::chrono::system_clock::now()); }

std::string card_name(const Device& device) {
  return device.name.kind == DeviceKind::cuda
             ? device.traits.card
             : fmt::format("{}, {} threads", this_machine().cpu, device.threads);
}

}  // namespace

std::optional<double> Result::ratio() const {
  if (!reference || *reference == 0) return std::nullopt;
  const bool inverted = reference_is == "torch" && (unit == "ms" || unit == "s");
  return inverted ? *reference / ours : ours / *reference;
}

Report::Report(const Options& options, const Device& device) : options_(options), card_(card_name(device)) {
  if (!options.torch.empty()) read_torch(options.torch);
  std::printf("%s, shape %s\n", card_.c_str(), options.shape.c_str());
}

void Report::say(const std::string& text) {
  std::printf("%s\n", text.c_str());
  std::fflush(stdout);
}

void Report::set_ceiling(double flops) {
  ceiling_tflops_ = flops * 1e-12;
  say(fmt::format("GEMM ceiling, 8192^3: {:.0f} TFLOP/s", ceiling_tflops_));
}

void Report::add(const Result& result) {
  std::string line = fmt::format("{:<52} {:>10.2f} {:<8}", result.work, result.ours, result.unit);
  if (result.reference) {
    line += fmt::format(" {:<15} {:>10.2f}  ratio {:>5.2f}", result.reference_is, *result.reference,
                        result.ratio().value_or(0));
    if (result.best_ratio) line += fmt::format(", of best {:>5.2f}", *result.best_ratio);
  }
  line += verdict(result);
  if (result.useful_tflops > 0) line += "  useful: " + rate_text(result.useful_tflops);
  if (result.useful_tflops > 0 && ceiling_tflops_ > 0) {
    line += fmt::format(", {:.0f} % of the ceiling", 100 * result.useful_tflops / ceiling_tflops_);
  }
  say(line);
  if (options_.json.empty()) return;
  nlohmann::ordered_json json = {{"work", result.work}, {"ours", result.ours}};
  json["reference"] = result.reference ? nlohmann::ordered_json(*result.reference) : nullptr;
  json["ratio"] = result.reference ? nlohmann::ordered_json(*result.ratio()) : nullptr;
  if (result.best_ratio) json["best_ratio"] = *result.best_ratio;
  json["unit"] = result.unit;
  json["reference_is"] = result.reference_is;
  if (result.useful_tflops > 0) json["useful_tflops"] = result.useful_tflops;
  if (ceiling_tflops_ > 0) json["ceiling_tflops"] = ceiling_tflops_;
  json["card"] = card_;
  json["command"] = options_.command;
  json["commit"] = options_.commit;
  json["date"] = today();
  std::ofstream file(options_.json, std::ios::app);
  file << json.dump() << "\n";
  if (!file) throw Error(fmt::format("{} cannot be written; name another file with --json", options_.json));
}

void Report::breakdown(const std::string& work, const PassTimes& times) {
  double total = 0;
  for (const auto& [kind, time] : times.kinds) total += time.ms;
  say(fmt::format("  {} by kind of operation, launched one by one: {:.2f} ms", work, total));
  for (const auto& [kind, time] : times.kinds) {
    say(fmt::format("    {:<48} {:>5} {:>10.2f} ms {:>5.1f} %", name_of(kind), time.launches, time.ms,
                    100 * time.ms / total));
  }
  for (const ProductTime& time : times.products) {
    const MatmulShape& shape = time.shape;
    const double flops = 2.0 * static_cast<double>(shape.rows * shape.columns) *
                         static_cast<double>(shape.depth * time.launches);
    say(fmt::format("    {:<48} {:>5} {:>10.2f} ms {:>8.3f} TFLOP/s", shape.text(), time.launches, time.ms,
                    flops / time.ms * 1e-9));
  }
}

void Report::memory(const std::string& work, const Device& device, const DeviceMemory& memory,
                    std::optional<double> torch_gib) {
  add({.work = work + ": arena", .ours = gibibytes(memory.arena_bytes), .unit = "GiB"});
  for (const auto& [purpose, bytes] : memory.by_purpose) {
    say(fmt::format("    {:<48} {:>16.3f} GiB", purpose, gibibytes(bytes)));
  }
  if (device.name.kind != DeviceKind::cuda) return;
  const cuda::MemoryInfo info = cuda::memory_info(device.name.index);
  add({.work = work + ": in use by the driver's count",
       .ours = gibibytes(info.total_bytes - info.free_bytes),
       .reference = torch_gib,
       .reference_is = torch_gib ? "torch" : "",
       .unit = "GiB"});
}

void Report::set_up(const std::string& work, const SetUpTimes& times, double pass_ms,
                    std::optional<double> torch_s) {
  const double loading_s = std::max(0.0, times.first_s - pass_ms * 1e-3);
  add({.work = work + ": warm-up",
       .ours = times.prepare_s + times.allocate_s + loading_s,
       .reference = torch_s,
       .reference_is = torch_s ? "torch" : "",
       .unit = "s"});
  say(fmt::format("    products {:.3f}, arena {:.3f}, first pass beyond a later one {:.3f} s",
                  times.prepare_s, times.allocate_s, loading_s));
}

void Report::read_torch(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw Error(fmt::format("{} cannot be read; --torch names lines of dflash_torch.py", path));
  for (std::string text; std::getline(file, text);) {
    const auto json = nlohmann::json::parse(text, nullptr, false);
    if (!json.is_object() || !json.contains("impl")) continue;  // warnings of the library stand between
    TorchLine line{.implementation = json["impl"],
                   .batch = json.value("batch", std::int64_t{0}),
                   .sequence = json.value("seq", std::int64_t{0}),
                   .anchors = json.value("anchors", std::int64_t{0}),
                   .layers = json.value("layers", std::int64_t{0}),
                   .optimizer = json.value("optimizer", false)};
    line.ms = json.value("step_ms", json.value("ms", 0.0));
    line.first_step_s = json.value("first_step_s", 0.0);
    line.peak_gib = json.value("peak_gib", 0.0);
    torch_.push_back(line);
  }
}

// The latest such line: a file may hold several runs, each beside one of ours.
const Report::TorchLine* Report::find_step(const Documents& documents, bool optimizer) const {
  const auto found = std::find_if(torch_.rbegin(), torch_.rend(), [&](const TorchLine& line) {
    return line.implementation == "torch-flex" && line.batch == documents.count &&
           line.sequence == documents.length && line.anchors == documents.anchors &&
           line.optimizer == optimizer;
  });
  return found == torch_.rend() ? nullptr : &*found;
}

std::optional<double> Report::torch_step_ms(const Documents& documents, bool optimizer) const {
  const TorchLine* line = find_step(documents, optimizer);
  return line ? std::optional(line->ms) : std::nullopt;
}

std::optional<double> Report::torch_first_step_s(const Documents& documents) const {
  std::optional<double> longest;
  for (const bool optimizer : {false, true}) {
    const TorchLine* line = find_step(documents, optimizer);
    if (line) longest = std::max(longest.value_or(0), line->first_step_s);
  }
  return longest;
}

std::optional<double> Report::torch_peak_gib(const Documents& documents) const {
  const TorchLine* line = find_step(documents, true);
  return line ? std::optional(line->peak_gib) : std::nullopt;
}

std::optional<double> Report::torch_prefill_ms(const Documents& documents, std::int64_t layers) const {
  for (const TorchLine& line : torch_) {
    const bool same = line.implementation == "torch-sdpa" && line.batch == documents.count &&
                      line.sequence == documents.length && line.layers == layers;
    if (same) return line.ms;
  }
  return std::nullopt;
}

}  // namespace draftsmith::bench
