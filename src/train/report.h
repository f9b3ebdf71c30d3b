// What a run did with its devices: the proof that nothing was allocated or prepared after set-up, memory by
// purpose, waits by thread, and rates.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/heap.h"
#include "device/seal.h"
#include "metrics/memory_watch.h"
#include "train/balance.h"
#include "train/device_thread.h"
#include "train/set_up_times.h"
#include "train/waits.h"

namespace draftsmith {

struct DeviceReport {
  std::string name;
  DeviceKind kind = DeviceKind::cpu;
  int threads = 1;
  bool target = false, drafter = false;
  std::int64_t bytes = 0;
  std::map<std::string, std::int64_t> bytes_by_purpose;
  WorkDone work;
  double total_s = 0;
  double busy_s = 0;        // in all, less the waits
  double product_rate = 0;  // 2 * multiply-adds / s of one product at warm-up
  CopyRates copy_rates;

  // While it was at work; 0 when it never was.
  double flops_per_second() const {
    return busy_s > 0 ? (work.target_flops + work.drafter_flops) / busy_s : 0;
  }
  // What of busy_s went into each role; on a device with both, by their useful work.
  RoleWork role_work() const;
};

struct TrainReport {
  std::int64_t first_step = 0, last_step = 0;  // of this process
  std::int64_t skipped_steps = 0;              // of the whole run
  std::string compute;
  double seconds = 0;  // of training, this process, evaluations included
  SetUpTimes set_up;
  double last_checkpoint_s = 0;  // from the end of training until it is written
  std::int64_t tokens = 0, blocks = 0;
  std::int64_t slot_bytes = 0, staging_bytes = 0;  // of the host
  std::vector<DeviceReport> devices;
  std::vector<ThreadTimes> threads;
  MemoryReport memory;  // while it was sealed
  SealReport seal;
  HeapCounts heap;  // since set-up ended

  // How the devices share the work, and how they could; of devices of one kind.
  RoleWork role_work() const;
  DeviceSplit split() const;
  bool comparable() const;  // whether they are of one kind

  double tokens_per_second() const { return static_cast<double>(tokens) / seconds; }
  double blocks_per_second() const { return static_cast<double>(blocks) / seconds; }
};

// One JSON object, indented.
std::string report_json(const TrainReport& report);
// Lines for people.
std::string report_text(const TrainReport& report);

// "1.50 GiB", "12.0 MiB", "2.5 KiB", "832 bytes".
std::string byte_text(std::int64_t bytes);
// A line a purpose, the largest first, indented.
std::string purpose_text(const std::map<std::string, std::int64_t>& bytes_by_purpose);

}  // namespace draftsmith
