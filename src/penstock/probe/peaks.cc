// Runs the loops on all CPUs at once in rounds of a millisecond, and keeps the best rate.
#include "penstock/probe/peaks.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "penstock/device/affinity.h"
#include "penstock/device/cgroup.h"
#include "penstock/device/topology.h"
#include "penstock/probe/arithmetic.h"
#include "penstock/probe/clock.h"
#include "penstock/probe/peak_rate.h"

namespace penstock::probe {
namespace {

constexpr double kPeakRoundSeconds = 1e-3;  // Shorter than the turns that processes have.
constexpr double kPatienceSeconds = 1;      // Of all rates, while others leave no round quiet.
constexpr std::int64_t kStepsAtOnce = 2000;
constexpr std::size_t kReadAtOnce = std::size_t{256} << 10U;  // Asking the clock costs little then.
constexpr std::size_t kBlock = 1024;                          // As read_all() wants it.
constexpr std::size_t kLeastMemory = std::size_t{64} << 20U;  // To read, of all threads together.

/// Called after each round.
using OnRound = std::function<void()>;

/// Does some work on the calling thread. \returns how much
using Work = std::function<double()>;

PeakTurn take_turn(const Work& work, Clock::time_point origin) {
  PeakTurn turn;
  turn.begin = seconds_since(origin);
  const double computed_before = device::computed_seconds();
  do {
    turn.amount += work();
    turn.end = seconds_since(origin);
  } while (turn.end - turn.begin < kPeakRoundSeconds);
  turn.computed = device::computed_seconds() - computed_before;
  return turn;
}

/// Threads that go through rounds together: each waits at the gate for the calling one's number.
class Team {
 public:
  Team(const std::vector<int>& cpus, const std::vector<Work>& works) : done_(cpus.size()) {
    for (std::size_t i = 0; i < cpus.size(); ++i) {
      threads_.emplace_back([this, i, cpu = cpus[i], &work = works[i]] {
        [[maybe_unused]] const auto pinned = device::pin_this_thread({cpu});  // Was tried before.
        for (int round = 1; wait_for(round); ++round) {
          done_[i] = take_turn(work, origin_);
          ++arrived_;
        }
      });
    }
  }
  ~Team() {
    gate_ = kEnd;
    for (auto& thread : threads_) thread.join();
  }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  PeakRate round() {
    arrived_ = 0;
    gate_ = ++rounds_;
    // This thread has no CPU of its own: it must not take that of who works.
    while (std::cmp_less(arrived_.load(), threads_.size())) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return peak_rate_of(done_);
  }

 private:
  static constexpr int kEnd = -1;

  /// Spins, so that all begin at once. False: it is over.
  [[nodiscard]] bool wait_for(int round) const {
    for (;;) {
      const int now = gate_.load(std::memory_order_acquire);
      if (now == round || now == kEnd) return now == round;
      std::this_thread::yield();
    }
  }

  std::atomic<int> gate_ = 0;
  std::atomic<std::size_t> arrived_ = 0;
  const Clock::time_point origin_ = Clock::now();
  std::vector<PeakTurn> done_;
  int rounds_ = 0;
  std::vector<std::thread> threads_;  // Last: they use all of the above.
};

/// A work for each CPU. Takes what it waited for quiet rounds in vain off the patience.
double best_rate(const std::vector<int>& cpus, const std::vector<Work>& works, double& patience,
                 const OnRound& alive) {
  Team team(cpus, works);
  team.round();  // Touches memory, wakes units that slept.
  const auto begin = Clock::now();
  BestRate best(patience);
  while (best.wants_more(seconds_since(begin))) {
    alive();
    best.add(team.round());
  }
  patience = best.patience_left(seconds_since(begin));
  return best.per_second();
}

double arithmetic_rate(const std::vector<int>& cpus, const Arithmetic& arithmetic, double& patience,
                       const OnRound& alive) {
  std::atomic<float> kept = 0;  // So that nothing is computed in vain.
  const Work work = [&] {
    kept = arithmetic.run(kStepsAtOnce);
    return arithmetic.flops_per_step * kStepsAtOnce;
  };
  return best_rate(cpus, std::vector(cpus.size(), work), patience, alive);
}

/// Bytes of its own, which the thread that reads them touches first: they lie near it then.
class Reader {
 public:
  Reader(std::size_t bytes, std::atomic<std::uint64_t>& kept)
      : size_(bytes / kBlock * kBlock),
        bytes_(std::make_unique_for_overwrite<std::byte[]>(size_ + kAlignment)),
        kept_(&kept) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.get());
    first_ = bytes_.get() + (kAlignment - address % kAlignment) % kAlignment;
  }

  double read() {
    if (!touched_) std::fill_n(first_, size_, std::byte{1});
    touched_ = true;
    std::size_t done = 0;
    while (done < kReadAtOnce) {
      const std::size_t count = std::min(kReadAtOnce, size_ - at_);
      *kept_ = read_all({first_ + at_, count});
      at_ = at_ + count < size_ ? at_ + count : 0;
      done += count;
    }
    return static_cast<double>(done);
  }

 private:
  static constexpr std::size_t kAlignment = 64;

  std::size_t size_, at_ = 0;
  std::unique_ptr<std::byte[]> bytes_;
  std::byte* first_ = nullptr;
  bool touched_ = false;
  std::atomic<std::uint64_t>* kept_;
};

double reading_rate(const std::vector<int>& cpus, std::size_t bytes_of_each, double& patience,
                    const OnRound& alive) {
  std::atomic<std::uint64_t> kept = 0;
  std::vector<Work> works;
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    auto reader = std::make_shared<Reader>(std::max(bytes_of_each, kBlock), kept);
    works.emplace_back([reader] { return reader->read(); });
  }
  return best_rate(cpus, works, patience, alive);
}

/// A level of the caches, of the CPUs at hand.
struct Share {
  int level = 0;
  std::size_t bytes = 0;    ///< Of all of its caches that one of the CPUs uses.
  std::size_t of_each = 0;  ///< The least that a CPU has of one, where all use it at once.
};

/// Nearest first; without levels of which a CPU has no more than of the one before.
std::vector<Share> shares_of(const std::vector<device::Cache>& caches,
                             const std::vector<int>& cpus) {
  std::vector<Share> shares;
  std::set<int> levels;
  for (const auto& cache : caches) levels.insert(cache.level);
  for (const int level : levels) {
    Share share{level, 0, SIZE_MAX};
    for (const auto& cache : caches) {
      if (cache.level != level) continue;
      const auto users = static_cast<std::size_t>(std::ranges::count_if(
          cpus, [&](int cpu) { return std::ranges::find(cache.cpus, cpu) != cache.cpus.end(); }));
      if (users == 0) continue;
      share.bytes += cache.size_bytes;
      share.of_each = std::min(share.of_each, cache.size_bytes / users);
    }
    const bool is_new =
        share.bytes > 0 && (shares.empty() || share.of_each / 2 > shares.back().of_each);
    if (is_new) shares.push_back(share);
  }
  return shares;
}

/// Of each thread, so that hardly any of it is in a cache when it is read again.
std::size_t memory_to_read(const std::vector<Share>& shares, std::size_t threads) {
  std::size_t all = kLeastMemory;
  if (!shares.empty()) all = std::max(all, 4 * shares.back().bytes);
  if (const auto left = device::available_memory()) all = std::min<std::size_t>(all, *left / 4);
  return all / threads;
}

}  // namespace

Result<cost::Peaks> time_peaks(const std::vector<int>& cpus, const std::function<void()>& alive) {
  if (cpus.empty()) return invalid_argument("peaks: expected at least one CPU, found none");
  for (const int cpu : cpus) PENSTOCK_CHECK_OK(device::pin_this_thread({cpu}));
  PENSTOCK_CHECK_OK(device::pin_this_thread(cpus));
  PENSTOCK_TRY(const auto topology, device::read_topology());
  cost::Peaks peaks;
  double patience = kPatienceSeconds;
  for (const auto& arithmetic : arithmetic_of_this_cpu()) {
    peaks.widths.push_back({arithmetic.name, arithmetic_rate(cpus, arithmetic, patience, alive)});
  }
  const auto shares = shares_of(topology.caches, cpus);
  std::size_t nearer = 0;
  for (const auto& share : shares) {
    const auto bytes = bytes_to_read(share.of_each, nearer);
    peaks.levels.push_back({concat("L", share.level), static_cast<double>(share.bytes),
                            reading_rate(cpus, bytes, patience, alive)});
    nearer = share.of_each;
  }
  peaks.levels.push_back(
      {"memory", 0, reading_rate(cpus, memory_to_read(shares, cpus.size()), patience, alive)});
  raise_nearer(peaks.levels);
  return peaks;
}

}  // namespace penstock::probe
