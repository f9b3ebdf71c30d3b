// Threads with a name, which a person reads when the system has none to give.
#pragma once

#include <functional>
#include <string_view>
#include <thread>

namespace draftsmith {

// Starts a thread that runs `body`. Throws Error with its name and the limits to raise where it cannot be started.
std::jthread start_thread(std::string_view name, std::function<void()> body);

}  // namespace draftsmith
