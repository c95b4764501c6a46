// Warms up, times rounds of runs until the median settles, and leaves out time that others took.
#include "penstock/probe/timing.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <vector>

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "penstock/cost/statistics.h"
#include "penstock/device/affinity.h"
#include "penstock/probe/clock.h"

namespace penstock::probe {
namespace {

constexpr double kWithin = 0.02;
constexpr double kRoundSeconds = 0.002;
constexpr double kWarmShare = 0.15;
constexpr double kMostWarmSeconds = 0.1;
constexpr std::size_t kFewestRounds = 9;

/// What others took of this thread's CPU so far.
struct Taken {
  long times = 0;
  double seconds = 0;
};

/// How long the calling thread was ready to run and did not, by the scheduler's own account.
class WaitingTime {
 public:
  WaitingTime() : file_(open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
  ~WaitingTime() {
    if (file_ >= 0) close(file_);
  }
  WaitingTime(const WaitingTime&) = delete;
  WaitingTime& operator=(const WaitingTime&) = delete;

  [[nodiscard]] Taken read() const {
    rusage usage{};
    Taken taken;
    if (getrusage(RUSAGE_THREAD, &usage) == 0) taken.times = usage.ru_nivcsw;
    // "<ns on the CPU> <ns waiting for it> <time slices>"; 0 where the system does not tell.
    std::array<char, 96> text{};
    if (file_ < 0 || pread(file_, text.data(), text.size() - 1, 0) <= 0) return taken;
    char* rest = nullptr;
    std::strtoull(text.data(), &rest, 10);
    taken.seconds = static_cast<double>(std::strtoull(rest, nullptr, 10)) * 1e-9;
    return taken;
  }

 private:
  int file_;
};

struct Round {
  double seconds = 0;  ///< Of one run, the mean, without the time that others took.
  double wall = 0;     ///< With it.
  bool disturbed = false;
};

Result<Round> time_round(const std::function<Status()>& run, std::int64_t count,
                         const WaitingTime& waiting) {
  const Taken before = waiting.read();
  const double computed_before = device::computed_seconds();
  const auto begin = Clock::now();
  for (std::int64_t i = 0; i < count; ++i) PENSTOCK_CHECK_OK(run());
  const double wall = seconds_since(begin);
  const double computed = std::min(device::computed_seconds() - computed_before, wall);
  const Taken after = waiting.read();
  const double taken = std::clamp(after.seconds - before.seconds, 0.0, wall - computed);
  const auto runs = static_cast<double>(count);
  return Round{(wall - taken) / runs, wall / runs, after.times != before.times};
}

/// A round that another process cut into found its caches emptied. Where there are too few others,
/// all count.
class Rounds {
 public:
  void add(const Round& round) {
    all_.push_back(round.seconds);
    if (!round.disturbed) quiet_.push_back(round.seconds);
  }
  [[nodiscard]] cost::Median median() const {
    return cost::median_of(quiet_.size() >= kFewestRounds ? quiet_ : all_);
  }
  [[nodiscard]] bool settled() const {
    if (all_.size() < kFewestRounds) return false;
    const auto median = this->median();
    return median.high <= median.value * (1 + kWithin) &&
           median.low >= median.value * (1 - kWithin);
  }
  [[nodiscard]] std::int64_t count() const { return static_cast<std::int64_t>(all_.size()); }

 private:
  std::vector<double> all_, quiet_;
};

}  // namespace

Result<Timing> time_runs(const std::function<Status()>& run, double min_seconds, double max_seconds,
                         const std::function<void()>& alive) {
  const WaitingTime waiting;
  const auto begin = Clock::now();
  const double warm = std::min(max_seconds * kWarmShare, kMostWarmSeconds);
  double fastest = INFINITY;
  do {
    PENSTOCK_TRY(const Round round, time_round(run, 1, waiting));
    // What others took of one short run is not known well enough to be left out.
    fastest = std::min(fastest, round.wall);
    alive();
  } while (seconds_since(begin) < warm);

  const auto per_round =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kRoundSeconds / std::max(fastest, 1e-9)));
  Rounds rounds;
  for (bool done = false; !done;) {
    PENSTOCK_TRY(const Round round, time_round(run, per_round, waiting));
    rounds.add(round);
    alive();
    const double spent = seconds_since(begin);
    done = spent >= max_seconds || (spent >= min_seconds && rounds.settled());
  }
  const auto median = rounds.median();
  return Timing{median.value, median.low, median.high, rounds.count() * per_round};
}

}  // namespace penstock::probe
