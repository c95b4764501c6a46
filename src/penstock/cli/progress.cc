// Rewrites one line of the terminal by escape sequences, at most once in 100 ms.
#include "penstock/cli/progress.h"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/printable.h"
#include "penstock/cli/terminal.h"

namespace penstock::cli {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);

/// The row of the terminal on which lines are shown: one, whoever shows them.
class StatusRow {
 public:
  static StatusRow& the() {
    static StatusRow row;
    return row;
  }

  void show(const std::string& text) {
    const std::scoped_lock lock(mutex_);
    shown_ = true;
    std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
    std::fflush(stderr);
  }

  void wipe() {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(shown_, false)) std::fputs("\r\x1b[K", stderr);
  }

 private:
  std::mutex mutex_;
  bool shown_ = false;
};

/// "[===   ]  ", or nothing where that would be too short to tell anything.
std::string bar_text(std::uint64_t done, std::uint64_t total, std::size_t columns) {
  constexpr std::size_t kWidest = 30, kNarrowest = 5, kAround = 4;
  if (columns < kNarrowest + kAround) return {};
  const auto width = std::min(kWidest, columns - kAround);
  const auto filled =
      static_cast<std::size_t>(static_cast<double>(std::min(done, total)) /
                               static_cast<double>(total) * static_cast<double>(width));
  return concat("[", std::string(filled, '='), std::string(width - filled, ' '), "]  ");
}

/// The last column stays free, as some terminals go on to the next line from there.
std::size_t columns_of_line() {
  return size_of_terminal(stderr).columns - 1;
}

}  // namespace

TerminalLine::TerminalLine() : on_terminal_(obeys_escapes(stderr)) {}

TerminalLine::~TerminalLine() {
  if (on_terminal_) StatusRow::the().wipe();
}

void TerminalLine::show(const std::string& text) {
  if (on_terminal_) StatusRow::the().show(cut_to(printable(text), columns_of_line()));
}

void make_room_on(std::FILE* out) {
  if (is_terminal(out)) StatusRow::the().wipe();
}

Progress::Progress(std::string title, std::string unit, std::optional<std::uint64_t> total)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      total_(total),
      next_(std::chrono::steady_clock::now()) {}

void Progress::show(std::uint64_t done) {
  if (!line_.on_terminal()) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  const auto title = concat(title_, "  ");
  if (!total_) return line_.show(concat(title, done, " ", unit_));
  const auto total = std::max<std::uint64_t>(*total_, 1);
  const auto count = concat(done, "/", total, " ", unit_);
  const auto columns = columns_of_line();
  const auto taken = std::min(columns, columns_of(title) + columns_of(count));
  line_.show(title + bar_text(done, total, columns - taken) + count);
}

}  // namespace penstock::cli
