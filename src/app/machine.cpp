#include "app/machine.h"

#include <algorithm>
#include <fstream>
#include <thread>

#include <unistd.h>

namespace draftsmith {
namespace {

std::string cpu_name() {
  std::ifstream stream("/proc/cpuinfo");
  for (std::string line; std::getline(stream, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t begin = line.find(": ");
    if (begin != std::string::npos) return line.substr(begin + 2);
  }
  return "unnamed";
}

std::string cpu_features() {
  __builtin_cpu_init();
  std::string text;
  const auto add = [&](bool has, const char* name) {
    if (!has) return;
    if (!text.empty()) text += ' ';
    text += name;
  };
  add(__builtin_cpu_supports("avx2") != 0, "avx2");
  add(__builtin_cpu_supports("avx512f") != 0, "avx512f");
  add(__builtin_cpu_supports("avx512bf16") != 0, "avx512_bf16");
  return text.empty() ? "none of avx2, avx512f, avx512_bf16" : text;
}

}  // namespace

Machine this_machine() {
  return {.cpu = cpu_name(),
          .cpu_features = cpu_features(),
          .cores = std::max(1, static_cast<int>(std::thread::hardware_concurrency())),
          .memory_bytes = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE)};
}

}  // namespace draftsmith
