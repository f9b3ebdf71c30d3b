#include "metrics/log_file.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <set>
#include <utility>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

namespace draftsmith {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what) {
  throw Error(path.string() + ": " + what + ": " + std::strerror(errno));
}

// nlohmann writes a number that is not finite as null.
struct Writer {
  Json& json;

  template <typename T>
  void operator()(const char* name, const T& value) {
    json[name] = value;
  }
  void operator()(const char* name, const OffsetShares& shares) {
    json[name] = std::vector<double>(shares.values.begin(), shares.values.begin() + shares.count);
  }
};

// Throws what nlohmann throws: missing names and wrong types.
struct Reader {
  const Json& json;

  template <typename T>
  void operator()(const char* name, T& value) {
    value = json.at(name).get<T>();
  }
  void operator()(const char* name, double& value) { value = number(json.at(name)); }
  void operator()(const char* name, OffsetShares& shares) {
    const Json& list = json.at(name);
    if (list.size() > shares.values.size())
      throw Error("at most 31 offsets, found " + std::to_string(list.size()));
    shares.count = 0;
    for (const Json& entry : list) shares.values[static_cast<std::size_t>(shares.count++)] = number(entry);
  }

  static double number(const Json& entry) { return entry.is_null() ? kNotMeasured : entry.get<double>(); }
};

LogEntry parse_line(const std::string& line) {
  const Json json = Json::parse(line);
  if (json.at("kind") == "step") {
    StepRecord record;
    visit_step_fields(record, Reader{json});
    return record;
  }
  if (json.at("kind") == "evaluation") {
    EvaluationRecord record;
    visit_evaluation_fields(record, Reader{json});
    return record;
  }
  throw Error("a line's kind is step or evaluation");
}

struct Line {
  std::string text;  // without the newline
  LogEntry entry;
};

std::vector<Line> read_lines(const std::filesystem::path& path) {
  if (std::filesystem::is_directory(path))
    throw Error(path.string() + ": expected the log, a file, found a folder; move it elsewhere");
  std::ifstream stream(path, std::ios::binary);
  if (!stream) fail(path, "the log cannot be read");
  const std::string text{std::istreambuf_iterator<char>(stream), {}};
  std::vector<Line> lines;
  std::size_t begin = 0;
  // What follows the last newline is torn.
  for (std::size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end - begin);
    try {
      lines.push_back({line, parse_line(line)});
    } catch (const std::exception& error) {
      const bool of_ours = dynamic_cast<const nlohmann::json::exception*>(&error) == nullptr;
      throw Error(
          path.string() + ":" + std::to_string(lines.size() + 1) +
          ": expected an entry of the log: " + (of_ours ? error.what() : "the line is no such JSON") +
          ". It was changed after it was written: restore it, or move the file away and go on without "
          "the past entries");
    }
  }
  return lines;
}

std::filesystem::path folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path() : ".";
}

// Whether the path leads to the file that is open.
bool names(const std::filesystem::path& path, int descriptor) {
  struct stat named = {}, open = {};
  return ::stat(path.c_str(), &named) == 0 && ::fstat(descriptor, &open) == 0 &&
         named.st_dev == open.st_dev && named.st_ino == open.st_ino;
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(folder, "the folder cannot be opened");
  const int result = ::fsync(descriptor);
  ::close(descriptor);
  if (result != 0) fail(folder, "the folder cannot be synchronized");
}

std::vector<MissingSteps> gaps_of(const std::set<std::int64_t>& steps, std::int64_t last) {
  std::vector<MissingSteps> gaps;
  std::int64_t next = 1;
  for (const std::int64_t step : steps) {
    if (step > next) gaps.push_back({.first = next, .last = step - 1});
    next = step + 1;
  }
  if (next <= last) gaps.push_back({.first = next, .last = last});
  return gaps;
}

}  // namespace

LogFile::LogFile(std::filesystem::path path) : path_(std::move(path)) {
  const bool is_new = !std::filesystem::exists(path_);
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail(path_, "the log cannot be opened");
  folder_ = ::open(folder_of(path_).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (is_new) sync_folder(folder_of(path_));
}

LogFile::~LogFile() {
  for (const int descriptor : {descriptor_, folder_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

LogFile::LogFile(LogFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      folder_(std::exchange(other.folder_, -1)) {}

void LogFile::write(const StepRecord& record) {
  Json json;
  json["kind"] = "step";
  visit_step_fields(record, Writer{json});
  append(json.dump() + "\n");
}

void LogFile::write(const EvaluationRecord& record) {
  Json json;
  json["kind"] = "evaluation";
  visit_evaluation_fields(record, Writer{json});
  append(json.dump() + "\n");
}

void LogFile::append(const std::string& lines) {
  std::size_t done = 0;
  while (done < lines.size()) {
    const ssize_t written = ::write(descriptor_, lines.data() + done, lines.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path_, "the log cannot be written");
    done += static_cast<std::size_t>(written);
  }
}

void LogFile::sync() {
  if (::fdatasync(descriptor_) != 0) fail(path_, "the log cannot be synchronized");
  if (!names(folder_of(path_), folder_) || names(path_, descriptor_)) return;
  throw Error(
      path_.string() +
      ": the log was deleted, moved or replaced while it was written; expected it to keep its name until "
      "the end. If it still is somewhere, put it back");
}

std::vector<LogEntry> read_log(const std::filesystem::path& path) {
  std::vector<LogEntry> entries;
  for (Line& line : read_lines(path)) entries.push_back(std::move(line.entry));
  return entries;
}

std::vector<MissingSteps> cut_to_step(const std::filesystem::path& path, std::int64_t step, LastEntry last) {
  if (!std::filesystem::exists(path)) return gaps_of({}, step);
  const std::filesystem::path aside = path.string() + ".cut";
  std::string kept;
  std::set<std::int64_t> steps;
  for (const Line& line : read_lines(path)) {
    const std::int64_t of = std::visit([](const auto& record) { return record.step; }, line.entry);
    const bool beyond = last == LastEntry::step && std::holds_alternative<EvaluationRecord>(line.entry);
    if (of > step || (of == step && beyond)) continue;
    kept += line.text + "\n";
    if (std::holds_alternative<StepRecord>(line.entry)) steps.insert(of);
  }
  std::filesystem::remove(aside);  // left by a kill
  {
    LogFile file(aside);
    file.append(kept);
    file.sync();
  }
  std::filesystem::rename(aside, path);
  sync_folder(folder_of(path));
  return gaps_of(steps, step);
}

}  // namespace draftsmith
