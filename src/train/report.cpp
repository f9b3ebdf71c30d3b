#include "train/report.h"

#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include "data/json.h"

namespace draftsmith {
namespace {

constexpr const char* kSetUpNames[] = {"arena", "pinned_pool", "kernel", "handle"};

double waited_s(const ThreadTimes& times) {
  return std::accumulate(times.waits_s.begin(), times.waits_s.end(), 0.0);
}

JsonValue counts_json(const std::int64_t (&counts)[4]) {
  JsonObject json;
  for (int kind = 0; kind < 4; ++kind) json.push_back({kSetUpNames[kind], {counts[kind]}});
  return {json};
}

JsonValue device_json(const DeviceReport& device) {
  JsonObject purposes;
  for (const auto& [purpose, bytes] : device.bytes_by_purpose) purposes.push_back({purpose, {bytes}});
  return {JsonObject{{"name", {device.name}},
                     {"threads", {std::int64_t{device.threads}}},
                     {"target", {device.target}},
                     {"drafter", {device.drafter}},
                     {"bytes", {device.bytes}},
                     {"bytes_by_purpose", {purposes}},
                     {"total_s", {device.total_s}},
                     {"gflops_per_second", {device.flops_per_second() / 1e9}},
                     {"gemm_gflops_per_second", {device.product_rate / 1e9}},
                     {"share_of_gemm_rate", {device.flops_per_second() / device.product_rate}}}};
}

JsonValue thread_json(const ThreadTimes& times) {
  JsonObject waits;
  for (std::size_t wait = 0; wait < times.waits_s.size(); ++wait) {
    if (times.waits_s[wait] > 0)
      waits.push_back({wait_name(static_cast<WaitFor>(wait)), {times.waits_s[wait]}});
  }
  return {JsonObject{{"name", {times.name}}, {"total_s", {times.total_s}}, {"waits_s", {waits}}}};
}

std::string device_text(const DeviceReport& device) {
  const char* const role = device.target && device.drafter ? "target and drafter"
                           : device.target                 ? "target"
                                                           : "drafter";
  return fmt::format(
      "  {} ({}, {} thread{}): {}, {:.1f} GFLOP/s useful, {:.0f} % of the {:.0f} of one product\n{}",
      device.name, role, device.threads, device.threads == 1 ? "" : "s", byte_text(device.bytes),
      device.flops_per_second() / 1e9, 100 * device.flops_per_second() / device.product_rate,
      device.product_rate / 1e9, purpose_text(device.bytes_by_purpose));
}

std::string thread_text(const ThreadTimes& times) {
  std::string line = fmt::format("  {}: {:.1f} s, of which {:.0f} % waiting", times.name, times.total_s,
                                 100 * waited_s(times) / std::max(times.total_s, 1e-9));
  for (std::size_t wait = 0; wait < times.waits_s.size(); ++wait) {
    if (times.waits_s[wait] <= 0) continue;
    line += fmt::format(", {:.1f} s for {}", times.waits_s[wait], wait_name(static_cast<WaitFor>(wait)));
  }
  return line + "\n";
}

}  // namespace

std::string report_json(const TrainReport& report) {
  JsonArray devices, threads;
  for (const DeviceReport& device : report.devices) devices.push_back(device_json(device));
  for (const ThreadTimes& times : report.threads) threads.push_back(thread_json(times));
  return write_json(
      {JsonObject{
          {"first_step", {report.first_step}},
          {"last_step", {report.last_step}},
          {"skipped_steps", {report.skipped_steps}},
          {"compute", {report.compute}},
          {"seconds", {report.seconds}},
          {"tokens", {report.tokens}},
          {"blocks", {report.blocks}},
          {"tokens_per_second", {report.tokens_per_second()}},
          {"blocks_per_second", {report.blocks_per_second()}},
          {"devices", {devices}},
          {"host_bytes",
           {JsonObject{{"slots", {report.slot_bytes}}, {"checkpoint_staging", {report.staging_bytes}}}}},
          {"threads", {threads}},
          {"set_up", counts_json(report.seal.before)},
          {"after_seal", counts_json(report.seal.after)},
          {"heap_on_device_threads",
           {JsonObject{{"ours", {report.heap.ours}},
                       {"gemm_library", {report.heap.library}},
                       {"watched", {report.heap.watched}}}}}}},
      JsonLayout::indented);
}

std::string report_text(const TrainReport& report) {
  const auto& after = report.seal.after;
  std::string text = fmt::format(
      "steps {}..{} in {:.1f} s: {:.0f} tokens/s, {:.0f} blocks/s, {}, {} steps skipped\n"
      "after set-up: {} arenas, {} pinned pools, {} kernels, {} handles; heap on device threads: {} by us, "
      "{} "
      "by the GEMM library{}\n"
      "devices\n",
      report.first_step, report.last_step, report.seconds, report.tokens_per_second(),
      report.blocks_per_second(), report.compute, report.skipped_steps, after[0], after[1], after[2],
      after[3], report.heap.ours, report.heap.library,
      report.heap.watched ? "" : " (not watched in this build)");
  for (const DeviceReport& device : report.devices) text += device_text(device);
  text +=
      fmt::format("host\n{}threads\n",
                  purpose_text({{"slots", report.slot_bytes}, {"checkpoint staging", report.staging_bytes}}));
  for (const ThreadTimes& times : report.threads) text += thread_text(times);
  return text;
}

std::string byte_text(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  if (bytes >= 1 << 30) return fmt::format("{:.2f} GiB", value / (1 << 30));
  if (bytes >= 1 << 20) return fmt::format("{:.1f} MiB", value / (1 << 20));
  if (bytes >= 1 << 10) return fmt::format("{:.1f} KiB", value / (1 << 10));
  return fmt::format("{} bytes", bytes);
}

std::string purpose_text(const std::map<std::string, std::int64_t>& bytes_by_purpose) {
  std::vector<std::pair<std::string, std::int64_t>> rows(bytes_by_purpose.begin(), bytes_by_purpose.end());
  std::stable_sort(rows.begin(), rows.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [purpose, bytes] : rows)
    text += fmt::format("    {:<22} {:>12}\n", purpose, byte_text(bytes));
  return text;
}

}  // namespace draftsmith
