// One line format on stderr: `draftsmith: message`, or `draftsmith [cpu:1]: message` from a device's thread.
// Lines of several threads never mix. A progress display may take the lines over (set_log_sink).
#pragma once

#include <functional>
#include <string_view>

namespace draftsmith {

void log_info(std::string_view message);
void log_warning(std::string_view message);

// Names the device in this thread's lines.
void set_log_device(std::string_view device);

// Called with each finished line (no newline) instead of writing to stderr; an empty function restores
// stderr. The sink is called under the log's lock.
void set_log_sink(std::function<void(std::string_view line)> sink);

}  // namespace draftsmith
