// Rewrites one line of the terminal by escape sequences, at most once in 100 ms.
#include "penstock/cli/progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include "penstock/base/error.h"

namespace penstock::cli {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr std::uint64_t kWidth = 30;

}  // namespace

TerminalLine::TerminalLine() : on_terminal_(::isatty(STDERR_FILENO) == 1) {}

TerminalLine::~TerminalLine() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void TerminalLine::show(const std::string& text) {
  if (!on_terminal_) return;
  shown_ = true;
  std::fprintf(stderr, "\r%s\x1b[K", text.c_str());
  std::fflush(stderr);
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
  std::string text = concat(title_, "  ");
  if (total_) {
    const auto total = std::max<std::uint64_t>(*total_, 1);
    const auto filled = std::min(done, total) * kWidth / total;
    text += concat("[", std::string(filled, '='), std::string(kWidth - filled, ' '), "]  ", done,
                   "/", total, " ", unit_);
  } else {
    text += concat(done, " ", unit_);
  }
  line_.show(text);
}

}  // namespace penstock::cli
