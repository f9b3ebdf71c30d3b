// The log thread: takes records and messages from any thread, appends the records to metrics.jsonl and shows
// both to the person who watches. Handing over a record takes no heap and no file, so device threads may.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <variant>

#include "base/mutex.h"
#include "base/queue.h"
#include "metrics/log_file.h"
#include "metrics/progress.h"
#include "metrics/record.h"

namespace draftsmith {

class Recorder {
 public:
  // `on_failure` is called once, by the log thread, when the log cannot be written.
  Recorder(LogFile log, Progress progress, std::function<void()> on_failure);
  ~Recorder();  // as close(), but swallows a failure that close() would have thrown
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Any thread may call these. They block while the log thread is far behind. When the log cannot be written
  // (a full disk, say) the watcher is told, and what is recorded from then on is shown, but not kept. record() is false
  // after close().
  bool record(const StepRecord& record) { return entries_.push(record); }
  bool record(const EvaluationRecord& record) { return entries_.push(record); }
  void say(std::string message) { entries_.push(std::move(message)); }

  // Blocks until all that this thread handed over before is on the disk, or the log is given up: a checkpoint
  // of step n must not overtake entry n.
  void flush();

  // Blocks until everything is written; ends the progress line. Throws the log's failure. May be called
  // again. What is handed over afterwards is dropped.
  void close();

 private:
  struct Barrier {
    bool* passed;  // guarded by mutex_; lives until it is set
  };
  using Entry = std::variant<StepRecord, EvaluationRecord, std::string, Barrier>;

  void run();
  template <typename Action>
  void keep(const Action& action);
  void handle(const StepRecord& record);
  void handle(const EvaluationRecord& record);
  void handle(const std::string& message);
  void handle(const Barrier& barrier);

  // Constant after construction.
  const std::function<void()> on_failure_;
  // Log thread only, and who has joined it.
  LogFile log_;
  Progress progress_;
  std::exception_ptr failure_;  // of the log; nothing is kept any more
  // Shared.
  Queue<Entry> entries_;
  Mutex mutex_;
  Condition changed_;
  // Last, so that it sees the others whole.
  std::jthread thread_;
};

// While it lives, the lines of base/log.h are messages of the recorder, which must outlive it.
class RecorderLogSink {
 public:
  explicit RecorderLogSink(Recorder& recorder);
  ~RecorderLogSink();
  RecorderLogSink(const RecorderLogSink&) = delete;
  RecorderLogSink& operator=(const RecorderLogSink&) = delete;
};

}  // namespace draftsmith
