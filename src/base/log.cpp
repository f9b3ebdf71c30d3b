#include "base/log.h"

#include <cstdio>
#include <string>

#include <fmt/core.h>

#include "base/mutex.h"
#include "base/printable.h"

namespace draftsmith {
namespace {

struct Log {
  Mutex mutex;
  std::function<void(std::string_view)> sink GUARDED_BY(mutex);
};

Log& log() {
  static Log instance;  // the process has one stderr
  return instance;
}

thread_local std::string t_device;

void write(std::string_view level, std::string_view message) {
  const std::string where = t_device.empty() ? std::string() : fmt::format(" [{}]", t_device);
  const std::string line = fmt::format("draftsmith{}: {}{}", where, level, printable(message));
  Lock lock(log().mutex);
  if (log().sink) return log().sink(line);
  std::fprintf(stderr, "%s\n", line.c_str());
}

}  // namespace

void log_info(std::string_view message) { write("", message); }
void log_warning(std::string_view message) { write("warning: ", message); }
void set_log_device(std::string_view device) { t_device = device; }

void set_log_sink(std::function<void(std::string_view line)> sink) {
  Lock lock(log().mutex);
  log().sink = std::move(sink);
}

}  // namespace draftsmith
