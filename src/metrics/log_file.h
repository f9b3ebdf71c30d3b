// metrics.jsonl: one JSON object a line, {"kind": "step", ...} or {"kind": "evaluation", ...}, with the names
// of metrics/record.h. A number that is not finite is null. Each line reaches the file by one write, so a
// kill leaves at most a torn last line, which the reader passes over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "metrics/record.h"

namespace draftsmith {

// One thread owns it.
class LogFile {
 public:
  // Opens for appending; makes the file, with a durable name, when there is none.
  explicit LogFile(std::filesystem::path path);
  ~LogFile();
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;

  void write(const StepRecord& record);
  void write(const EvaluationRecord& record);

  // Whole lines, by one write where the system takes them at once.
  void append(const std::string& lines);

  // Blocks until what was written is on the disk. An error too when the path no longer names the file that is open, which
  // nobody would find; but a folder that was moved or removed as a whole is for those who know what else was in it.
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
  int folder_ = -1;  // the one that the file was opened in
};

using LogEntry = std::variant<StepRecord, EvaluationRecord>;

// In the order of the file. A broken line that is not the last is an error.
std::vector<LogEntry> read_log(const std::filesystem::path& path);

// Steps without an entry, both ends among them.
struct MissingSteps {
  std::int64_t first = 0, last = 0;

  bool operator==(const MissingSteps&) const = default;
};

// Keeps the entries up to that of `step`, or to that of the evaluation after it, and no torn line. The file is
// written aside and renamed into place, so that a kill leaves the old or the new one. Without a file there is
// nothing to cut. Says which of the steps 1 .. `step` it has no entry of.
enum class LastEntry { step, evaluation };
std::vector<MissingSteps> cut_to_step(const std::filesystem::path& path, std::int64_t step, LastEntry last);

}  // namespace draftsmith
