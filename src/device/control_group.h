// What the process's control groups leave it of the machine's memory: containers are limited by them, and
// /proc/meminfo does not know.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace draftsmith {

struct ControlGroupFiles {
  std::filesystem::path membership = "/proc/self/cgroup";
  std::filesystem::path root = "/sys/fs/cgroup";
};

// The least that a group of the process, or one above it, has left of its limit, cached pages of files that it could give
// back counted as free (cgroup v2: memory.max, memory.current, memory.stat; v1: the memory controller's). Nothing where no
// group has a limit, or none can be read.
std::optional<std::int64_t> control_group_bytes_left(const ControlGroupFiles& files = {});

}  // namespace draftsmith
