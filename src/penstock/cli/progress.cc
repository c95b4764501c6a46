#include "penstock/cli/progress.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include <unistd.h>

namespace penstock::cli {
namespace {

constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr std::uint64_t kWidth = 30;

}  // namespace

Progress::Progress(std::string title, std::string unit, std::uint64_t total)
    : title_(std::move(title)),
      unit_(std::move(unit)),
      total_(std::max<std::uint64_t>(total, 1)),
      on_terminal_(::isatty(STDERR_FILENO) == 1),
      next_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::show(std::uint64_t done) {
  if (!on_terminal_) return;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_) return;
  next_ = now + kInterval;
  shown_ = true;
  const auto filled = std::min(done, total_) * kWidth / total_;
  const std::string bar = std::string(filled, '=') + std::string(kWidth - filled, ' ');
  std::fprintf(stderr, "\r%s  [%s]  %llu/%llu %s\x1b[K", title_.c_str(), bar.c_str(),
               static_cast<unsigned long long>(done), static_cast<unsigned long long>(total_),
               unit_.c_str());
  std::fflush(stderr);
}

}  // namespace penstock::cli
