#include "metrics/recorder.h"

#include <utility>

#include <fmt/core.h>

#include "base/log.h"

namespace draftsmith {
namespace {

constexpr std::size_t kEntries = 256;  // minutes of steps on CPU devices

}  // namespace

Recorder::Recorder(LogFile log, Progress progress)
    : log_(std::move(log)), progress_(std::move(progress)), entries_(kEntries), thread_([this] { run(); }) {}

Recorder::~Recorder() {
  entries_.close();
  if (thread_.joinable()) thread_.join();
}

void Recorder::push(Entry entry) {
  if (failed_) rethrow_failure();
  entries_.push(std::move(entry));
}

void Recorder::rethrow_failure() {
  Lock lock(mutex_);
  if (first_failure_) std::rethrow_exception(first_failure_);
}

void Recorder::flush() {
  bool passed = false;
  if (entries_.push(Barrier{&passed})) {
    Lock lock(mutex_);
    while (!passed) changed_.wait(mutex_);
  }
  rethrow_failure();
}

void Recorder::close() {
  entries_.close();
  if (thread_.joinable()) thread_.join();
  rethrow_failure();
}

// After a failure the rest is dropped, but barriers still pass: nobody waits for a log that is gone.
void Recorder::run() {
  while (const auto entry = entries_.pop()) {
    try {
      if (!failed_) std::visit([this](const auto& content) { handle(content); }, *entry);
    } catch (...) {
      Lock lock(mutex_);
      first_failure_ = std::current_exception();
      failed_ = true;
    }
    if (const auto* barrier = std::get_if<Barrier>(&*entry)) {
      Lock lock(mutex_);
      *barrier->passed = true;
      changed_.notify_all();
    }
  }
  progress_.finish();
}

void Recorder::handle(const StepRecord& record) {
  log_.write(record);
  if (record.skipped) {
    progress_.message(
        fmt::format("step {}: the loss or the gradient is not finite; no update is made ({} so far)",
                    record.step, record.skipped_steps));
  }
  progress_.show(record);
}

void Recorder::handle(const EvaluationRecord& record) {
  log_.write(record);
  progress_.message(
      fmt::format("step {}: held-out loss {:.3f}, acceptance {:.3f} over {} conversations ({:.1f} s)",
                  record.step, record.loss, record.acceptance, record.conversations, record.seconds));
}

void Recorder::handle(const std::string& message) { progress_.message(message); }

RecorderLogSink::RecorderLogSink(Recorder& recorder) {
  set_log_sink([&recorder](std::string_view line) { recorder.say(std::string(line)); });
}

RecorderLogSink::~RecorderLogSink() { set_log_sink({}); }

}  // namespace draftsmith
