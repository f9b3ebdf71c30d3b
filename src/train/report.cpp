#include "train/report.h"

#include <algorithm>

#include <fmt/core.h>

#include "base/counted.h"
#include "data/json.h"

namespace draftsmith {
namespace {

constexpr const char* kSetUpNames[] = {"arena", "pinned_pool", "kernel", "handle"};

DeviceSplit best_split_of(const TrainReport& report) {
  return best_split(report.role_work(), std::ssize(report.devices));
}

JsonValue balance_json(const TrainReport& report) {
  const RoleWork work = report.role_work();
  const DeviceSplit best = best_split_of(report);
  JsonObject json{{"target_busy_s", {work.target_s}}, {"drafter_busy_s", {work.drafter_s}}};
  if (report.comparable()) {
    json.push_back({"best_split",
                    {JsonObject{{"targets", {best.targets}},
                                {"drafters", {best.drafters}},
                                {"both_roles", {best.both_roles}},
                                {"times_as_fast", {split_s(work, report.split()) / split_s(work, best)}}}}});
  }
  return {json};
}

// Who held up whom: a role that is less busy waits for the other.
std::string balance_text(const TrainReport& report) {
  const RoleWork work = report.role_work();
  const DeviceSplit now = report.split(), best = best_split_of(report);
  const auto busy = [&](double role_s, std::int64_t devices) {
    return 100 * role_s / (static_cast<double>(devices) * std::max(report.seconds, 1e-9));
  };
  std::string text =
      fmt::format("balance: {}; busy with target work {:.0f} % of the time, with drafter work {:.0f} %\n",
                  split_text(now), busy(work.target_s, now.targets), busy(work.drafter_s, now.drafters));
  if (!report.comparable() || report.devices.size() == 1) return text;
  if (best == now) return text + "    no other split of these devices would be faster\n";
  return text + fmt::format("    by their work the fastest with these devices: {}, {:.2f} times as fast\n",
                            split_text(best), split_s(work, now) / split_s(work, best));
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
                     {"busy_s", {device.busy_s}},
                     {"gflops_per_second", {device.flops_per_second() / 1e9}},
                     {"gemm_gflops_per_second", {device.product_rate / 1e9}},
                     {"share_of_gemm_rate", {device.flops_per_second() / device.product_rate}},
                     {"copied_to_slots_gb_per_second", {device.copy_rates.to_slot / 1e9}},
                     {"copied_from_slots_gb_per_second", {device.copy_rates.from_slot / 1e9}}}};
}

JsonValue waits_json(const Stretch& stretch) {
  JsonObject waits;
  for (std::size_t wait = 0; wait < stretch.waits_s.size(); ++wait) {
    if (stretch.waits_s[wait] > 0)
      waits.push_back({wait_name(static_cast<WaitFor>(wait)), {stretch.waits_s[wait]}});
  }
  return {waits};
}

JsonValue thread_json(const ThreadTimes& times) {
  JsonObject json{
      {"name", {times.name}}, {"total_s", {times.total_s}}, {"waits_s", waits_json(times.whole())}};
  if (times.first_features) {
    const Stretch steady = times.steady();
    json.push_back({"from_first_features",
                    {JsonObject{{"after_s", {times.first_features->total_s}},
                                {"total_s", {steady.total_s}},
                                {"waits_s", waits_json(steady)}}}});
  }
  return {json};
}

JsonValue range_json(const ByteRange& range) {
  if (!range.sampled()) return {JsonObject{}};
  return {JsonObject{{"least", {range.least}}, {"most", {range.most}}}};
}

JsonValue memory_json(const MemoryReport& memory) {
  JsonObject gpus;
  for (const MemoryReport::Gpu& gpu : memory.gpus) gpus.push_back({gpu.name, range_json(gpu.used)});
  return {JsonObject{{"samples", {memory.samples}},
                     {"steady", {memory.steady()}},
                     {"gpu_bytes", {gpus}},
                     {"pinned_bytes", range_json(memory.pinned)},
                     {"anonymous_bytes_after_step_20", range_json(memory.anonymous)},
                     {"file_bytes", range_json(memory.files)}}};
}

std::string range_text(const ByteRange& range) {
  if (!range.sampled()) return "not sampled";
  if (range.moved() == 0) return byte_text(range.most) + " (min = max)";
  return fmt::format("{} to {}, moved by {}", byte_text(range.least), byte_text(range.most),
                     byte_text(range.moved()));
}

std::string memory_text(const MemoryReport& memory) {
  const char* const judgement = !memory.steady()             ? "NOT steady"
                                : memory.anonymous.sampled() ? "steady"
                                                             : "steady as far as so short a run shows";
  std::string text = fmt::format("memory in {}: {}\n", counted(memory.samples, "sample"), judgement);
  const auto line = [&](const std::string& name, const ByteRange& range) {
    text += fmt::format("    {:<22} {}\n", name, range_text(range));
  };
  for (const MemoryReport::Gpu& gpu : memory.gpus) line(gpu.name + " by the driver", gpu.used);
  line("pinned", memory.pinned);
  line("anonymous, settled", memory.anonymous);
  line("files", memory.files);
  return text;
}

std::string device_text(const DeviceReport& device) {
  const char* const role = device.target && device.drafter ? "target and drafter"
                           : device.target                 ? "target"
                                                           : "drafter";
  std::string copies;
  if (device.target)
    copies += fmt::format("    copies to slots        {:>7.1f} GB/s\n", device.copy_rates.to_slot / 1e9);
  if (device.drafter)
    copies += fmt::format("    copies from slots      {:>7.1f} GB/s\n", device.copy_rates.from_slot / 1e9);
  return fmt::format(
      "  {} ({}, {}): {}; at work {:.0f} % of the time, then {:.1f} useful GFLOP/s, {:.0f} % of the {:.0f} "
      "of one "
      "product\n{}{}",
      device.name, role, counted(device.threads, "thread"), byte_text(device.bytes),
      100 * device.busy_s / std::max(device.total_s, 1e-9), device.flops_per_second() / 1e9,
      100 * device.flops_per_second() / device.product_rate, device.product_rate / 1e9,
      purpose_text(device.bytes_by_purpose), copies);
}

// Of a drafter, the waits from its first features on.
std::string thread_text(const ThreadTimes& times) {
  const Stretch steady = times.steady();
  const auto percent = [&](double waited_s) { return 100 * waited_s / std::max(steady.total_s, 1e-9); };
  std::string line = fmt::format("  {}: {:.1f} s, ", times.name, times.total_s);
  if (times.first_features) {
    line += fmt::format("first features after {:.2f} s, from then on {:.1f} % waiting",
                        times.first_features->total_s, percent(steady.waited_s()));
  } else {
    line += fmt::format("of which {:.1f} % waiting", percent(steady.waited_s()));
  }
  for (std::size_t wait = 0; wait < steady.waits_s.size(); ++wait) {
    if (percent(steady.waits_s[wait]) < 0.05) continue;  // would show as 0.0 %
    line += fmt::format(", {:.1f} % for {}", percent(steady.waits_s[wait]),
                        wait_name(static_cast<WaitFor>(wait)));
  }
  return line + "\n";
}

JsonValue set_up_json(const SetUpTimes& times) {
  return {JsonObject{{"total", {times.total_s}},
                     {"products", {times.products_s}},
                     {"allocate", {times.allocate_s}},
                     {"first_state", {times.first_state_s}},
                     {"load_target", {times.load_s}},
                     {"restore", {times.restore_s}},
                     {"warm_up", {times.warm_up_s}}}};
}

std::string set_up_text(const SetUpTimes& times, double last_checkpoint_s) {
  return fmt::format(
      "set-up {:.1f} s: products {:.1f}, memory {:.1f}, first state {:.1f}, loading the target {:.1f}, first "
      "state to drafters {:.1f}, warm-up {:.1f}; last checkpoint {:.1f} s after training\n",
      times.total_s, times.products_s, times.allocate_s, times.first_state_s, times.load_s, times.restore_s,
      times.warm_up_s, last_checkpoint_s);
}

}  // namespace

RoleWork DeviceReport::role_work() const {
  const double all = work.target_flops + work.drafter_flops;
  if (all == 0) return {};
  return {.target_s = busy_s * work.target_flops / all, .drafter_s = busy_s * work.drafter_flops / all};
}

RoleWork TrainReport::role_work() const {
  RoleWork sum;
  for (const DeviceReport& device : devices) {
    sum.target_s += device.role_work().target_s;
    sum.drafter_s += device.role_work().drafter_s;
  }
  return sum;
}

DeviceSplit TrainReport::split() const {
  DeviceSplit split{.both_roles = true};
  for (const DeviceReport& device : devices) {
    split.targets += device.target ? 1 : 0;
    split.drafters += device.drafter ? 1 : 0;
    split.both_roles = split.both_roles && device.target && device.drafter;
  }
  return split;
}

bool TrainReport::comparable() const {
  return std::all_of(devices.begin(), devices.end(),
                     [&](const DeviceReport& device) { return device.kind == devices.front().kind; });
}

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
          {"set_up_seconds", set_up_json(report.set_up)},
          {"last_checkpoint_seconds", {report.last_checkpoint_s}},
          {"tokens", {report.tokens}},
          {"blocks", {report.blocks}},
          {"tokens_per_second", {report.tokens_per_second()}},
          {"blocks_per_second", {report.blocks_per_second()}},
          {"devices", {devices}},
          {"host_bytes",
           {JsonObject{{"slots", {report.slot_bytes}}, {"checkpoint_staging", {report.staging_bytes}}}}},
          {"threads", {threads}},
          {"balance", balance_json(report)},
          {"memory", memory_json(report.memory)},
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
      "steps {}..{} in {:.1f} s (evaluations included): {:.0f} tokens/s, {:.0f} blocks/s, {}, {} steps "
      "skipped\n",
      report.first_step, report.last_step, report.seconds, report.tokens_per_second(),
      report.blocks_per_second(), report.compute, report.skipped_steps);
  text += set_up_text(report.set_up, report.last_checkpoint_s);
  text += fmt::format(
      "after set-up: {} arenas, {} pinned pools, {} kernels, {} handles; heap on device threads: {} by us, "
      "{} by the GEMM library{}\n"
      "devices\n",
      after[0], after[1], after[2], after[3], report.heap.ours, report.heap.library,
      report.heap.watched ? "" : " (not watched in this build)");
  for (const DeviceReport& device : report.devices) text += device_text(device);
  text +=
      fmt::format("host\n{}threads\n",
                  purpose_text({{"slots", report.slot_bytes}, {"checkpoint staging", report.staging_bytes}}));
  for (const ThreadTimes& times : report.threads) text += thread_text(times);
  return text + balance_text(report) + memory_text(report.memory);
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
