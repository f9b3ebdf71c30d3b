// The log thread: takes records and messages from any thread, appends the records to metrics.jsonl and shows
// both to the person who watches. Handing over a record takes no heap and no file, so device threads may.
#pragma once

#include <atomic>
#include <exception>
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
  Recorder(LogFile log, Progress progress);
  ~Recorder();  // as close(), but swallows a failure that close() would have thrown
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  // Any thread may call these. They block while the log thread is far behind. record() throws the log
  // thread's first failure (a full disk, say); a message is then dropped.
  void record(const StepRecord& record) { push(record); }
  void record(const EvaluationRecord& record) { push(record); }
  void say(std::string message) { entries_.push(std::move(message)); }

  // Blocks until all that this thread handed over before is on the disk: a checkpoint of step n must not
  // overtake entry n. Throws the first failure.
  void flush();

  // Blocks until everything is written; ends the progress line. Throws the first failure. May be called
  // again. What is handed over afterwards is dropped.
  void close();

 private:
  struct Barrier {
    bool* passed;  // guarded by mutex_; lives until it is set
  };
  using Entry = std::variant<StepRecord, EvaluationRecord, std::string, Barrier>;

  void push(Entry entry);
  void rethrow_failure();
  void run();
  void handle(const StepRecord& record);
  void handle(const EvaluationRecord& record);
  void handle(const std::string& message);
  void handle(const Barrier&) { log_.sync(); }

  // Log thread only.
  LogFile log_;
  Progress progress_;
  // Shared.
  Queue<Entry> entries_;
  std::atomic<bool> failed_ = false;
  Mutex mutex_;
  Condition changed_;
  std::exception_ptr first_failure_ GUARDED_BY(mutex_);
  // Last, so that it sees the others whole.
  std::thread thread_;
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
