#include "metrics/recorder.h"

#include <utility>

#include <fmt/core.h>

#include "base/failure_text.h"
#include "base/log.h"
#include "base/thread.h"

namespace draftsmith {
namespace {

constexpr std::size_t kEntries = 256;  // minutes of steps on CPU devices

}  // namespace

Recorder::Recorder(LogFile log, Progress progress, std::function<void()> on_failure)
    : on_failure_(std::move(on_failure)),
      log_(std::move(log)),
      progress_(std::move(progress)),
      entries_(kEntries),
      thread_(start_thread("log", [this] { run(); })) {}

Recorder::~Recorder() {
  entries_.close();
  if (thread_.joinable()) thread_.join();
}

void Recorder::flush() {
  bool passed = false;
  if (entries_.push(Barrier{&passed})) {
    Lock lock(mutex_);
    while (!passed) changed_.wait(mutex_);
  }
}

void Recorder::close() {
  entries_.close();
  if (thread_.joinable()) thread_.join();
  if (failure_) std::rethrow_exception(failure_);
}

void Recorder::run() {
  while (const auto entry = entries_.pop()) {
    std::visit([this](const auto& content) { handle(content); }, *entry);
  }
  progress_.finish();
}

// What the action does to the log; nothing once it has failed.
template <typename Action>
void Recorder::keep(const Action& action) {
  if (failure_) return;
  try {
    action();
  } catch (const std::exception& failure) {
    failure_ = std::current_exception();
    progress_.message(fmt::format("{}; nothing more is logged", failure_text(failure)));
    on_failure_();
  }
}

void Recorder::handle(const StepRecord& record) {
  keep([&] { log_.write(record); });
  if (record.skipped) {
    progress_.message(
        fmt::format("step {}: the loss or the gradient is not finite; no update is made ({} so far)",
                    record.step, record.skipped_steps));
  }
  progress_.show(record);
}

void Recorder::handle(const EvaluationRecord& record) {
  keep([&] { log_.write(record); });
  progress_.message(fmt::format("step {}: held-out loss {}, acceptance {} over {} conversations ({} s)",
                                record.step, fixed_text(record.loss, 3), fixed_text(record.acceptance, 3),
                                record.conversations, fixed_text(record.seconds, 1)));
}

void Recorder::handle(const std::string& message) { progress_.message(message); }

// It passes without a log too: nobody waits for one that is given up.
void Recorder::handle(const Barrier& barrier) {
  keep([&] { log_.sync(); });
  Lock lock(mutex_);
  *barrier.passed = true;
  changed_.notify_all();
}

RecorderLogSink::RecorderLogSink(Recorder& recorder) {
  set_log_sink([&recorder](std::string_view line) { recorder.say(std::string(line)); });
}

RecorderLogSink::~RecorderLogSink() { set_log_sink({}); }

}  // namespace draftsmith
