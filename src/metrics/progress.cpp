#include "metrics/progress.h"

#include <chrono>
#include <cmath>
#include <vector>

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/terminal.h"

namespace draftsmith {
namespace {

constexpr double kRedrawSeconds = 0.1;
constexpr double kPlainSeconds = 10;
constexpr std::size_t kWaitingMessages = 100;
constexpr std::chrono::milliseconds kPatience{1000};
constexpr const char* kClearLine = "\r\x1b[K";

std::int64_t columns_of_stderr() {
  winsize size{};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace

ProgressSettings progress_on_stderr(std::int64_t total_steps) {
  const auto now_s = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  ProgressSettings settings{
      .descriptor = STDERR_FILENO, .total_steps = total_steps, .now_s = now_s, .columns = {}};
  if (follows_escapes(STDERR_FILENO)) settings.columns = columns_of_stderr;
  return settings;
}

std::string fixed_text(double value, int decimals) {
  return std::isnan(value) ? "nan" : fmt::format("{:.{}f}", value, decimals);
}

std::string short_count(double count) {
  if (!std::isfinite(count)) return "-";
  const char* suffix = "";
  for (const char* next : {"k", "M", "G"}) {
    if (count < 999.5) break;
    count /= 1000;
    suffix = next;
  }
  const int decimals = *suffix == '\0' || count >= 99.95 ? 0 : count >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", count, decimals, suffix);
}

std::string short_duration(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  if (total < 60) return fmt::format("{}s", total);
  if (total < 3600) return fmt::format("{}m{:02}s", total / 60, total % 60);
  if (total < 86400) return fmt::format("{}h{:02}m", total / 3600, total / 60 % 60);
  return fmt::format("{}d{:02}h", total / 86400, total / 3600 % 24);
}

std::string Progress::line(const StepRecord& record, double now_s) const {
  const std::int64_t done = record.step - first_step_;
  const double step_s = done > 0 ? (now_s - first_s_) / static_cast<double>(done) : kNotMeasured;
  std::vector<std::string> fields{
      fmt::format("step {}/{}", record.step, settings_.total_steps),
      "loss " + fixed_text(record.loss, 2),
      "acc " + fixed_text(record.accuracy, 2),
      "accept " + fixed_text(record.acceptance, 2),
      short_count(record.tokens_per_second) + " tok/s",
      fmt::format("queue {}/{}", record.queue_filled, record.queue_slots),
      "eta " + short_duration(step_s * static_cast<double>(settings_.total_steps - record.step))};
  if (record.skipped_steps > 0) fields.push_back(fmt::format("skipped {}", record.skipped_steps));
  std::string text;
  for (const std::string& field : fields) {
    const std::string longer = text.empty() ? field : text + "  " + field;
    // The last column stays free: some terminals wrap when it is written.
    if (settings_.columns && static_cast<std::int64_t>(longer.size()) >= settings_.columns()) break;
    text = longer;
  }
  return text;
}

bool Progress::write_rest() {
  rest_.erase(0, output_.write(rest_));
  return rest_.empty();
}

// False when the output takes none of the text now; else what it does not take yet is kept.
bool Progress::begin(std::string_view text) {
  if (!write_rest()) return false;
  const std::size_t taken = output_.write(text);
  if (taken == 0) return false;
  rest_ = text.substr(taken);
  return true;
}

// False while some still wait.
bool Progress::show_waiting() {
  const auto show_line = [this](const std::string& text) {
    if (!begin((moving_ ? kClearLine : "") + text + "\n")) return false;
    if (moving_) newest_shown_ = false;
    moving_ = false;
    return true;
  };
  if (dropped_ > 0 && !waiting_.empty()) {
    if (!show_line(fmt::format("... {} message{} not shown", dropped_, dropped_ == 1 ? " was" : "s were")))
      return false;
    dropped_ = 0;
  }
  while (!waiting_.empty() && show_line(waiting_.front())) waiting_.pop_front();
  return waiting_.empty();
}

bool Progress::draw() {
  if (!show_waiting()) return false;
  newest_shown_ = begin((settings_.columns ? kClearLine : "") + newest_ + (settings_.columns ? "" : "\n"));
  if (newest_shown_) moving_ = static_cast<bool>(settings_.columns);
  return newest_shown_;
}

void Progress::show(const StepRecord& record) {
  const double now_s = settings_.now_s();
  if (!any_shown_) {
    first_step_ = record.step;
    first_s_ = now_s;
  }
  newest_ = line(record, now_s);
  newest_shown_ = false;
  const double interval_s = settings_.columns ? kRedrawSeconds : kPlainSeconds;
  if (any_shown_ && now_s - shown_s_ < interval_s) return;
  any_shown_ = true;
  shown_s_ = now_s;
  draw();
}

void Progress::message(const std::string& text) {
  waiting_.push_back(text);
  if (waiting_.size() > kWaitingMessages) {
    waiting_.pop_front();
    ++dropped_;
  }
  const bool was_moving = moving_;
  if (!show_waiting() || !was_moving) return;
  newest_shown_ = begin(newest_);
  moving_ = newest_shown_;
}

// False while the output does not take it all.
bool Progress::leave_standing() {
  if (!show_waiting() || (!newest_shown_ && !draw())) return false;
  if (moving_ && begin("\n")) moving_ = false;
  return !moving_ && write_rest();
}

void Progress::finish() {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!leave_standing()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0 || !output_.wait(left)) return;
  }
}

}  // namespace draftsmith
