// Times words and data between two pinned threads, and copies to and from a device's memory.
#include "penstock/probe/link.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <thread>
#include <utility>

#include "penstock/base/thread.h"
#include "penstock/device/affinity.h"
#include "penstock/probe/clock.h"

namespace penstock::probe {
namespace {

constexpr int kRounds = 50;
constexpr int kWordsPerRound = 10;
constexpr double kMostSeconds = 0.2;  // Where others have the CPUs, words wait for their turns.
constexpr int kSpins = 1000;
constexpr std::size_t kBytes = std::size_t{1} << 20U;
constexpr int kEnd = -1;

/// A word that both sides see, alone in its cache line.
struct alignas(128) Word {
  std::atomic<int> value = 0;

  /// Blocks until it is `expected`, or kEnd: then false.
  [[nodiscard]] bool wait_for(int expected) const {
    for (int spins = 0;; ++spins) {
      const int now = value.load(std::memory_order_acquire);
      if (now == expected || now == kEnd) return now == expected;
      if (spins > kSpins) std::this_thread::yield();
    }
  }
  void set(int number) { value.store(number, std::memory_order_release); }
};

/// What the two sides share. The least of all rounds: what others took of either CPU is no part of
/// the link.
struct Shared {
  Word there, back;
  std::vector<std::uint64_t> bytes = std::vector<std::uint64_t>(kBytes / sizeof(std::uint64_t));
  double latency = INFINITY, reading = INFINITY;
  std::atomic<std::uint64_t> sum = 0;  // So that nothing is read in vain.
};

/// Writes; times words there and back.
void lead(Shared& shared) {
  const auto first = Clock::now();
  int number = 0;
  const auto exchange = [&] {
    shared.there.set(++number);
    return shared.back.wait_for(number);
  };
  for (int round = 0; round < kRounds && seconds_since(first) < kMostSeconds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < kWordsPerRound; ++i) {
      if (!exchange()) return;
    }
    shared.latency = std::min(shared.latency, seconds_since(begin) / (2 * kWordsPerRound));
    std::iota(shared.bytes.begin(), shared.bytes.end(), static_cast<std::uint64_t>(round));
    if (!exchange()) return;
  }
  shared.there.set(kEnd);
}

/// Answers; times reading what was written.
void follow(Shared& shared) {
  for (int number = 1; shared.there.wait_for(number); ++number) {
    if (number % (kWordsPerRound + 1) == 0) {
      const auto begin = Clock::now();
      shared.sum += std::accumulate(shared.bytes.begin(), shared.bytes.end(), std::uint64_t{0});
      shared.reading = std::min(shared.reading, seconds_since(begin));
    }
    shared.back.set(number);
  }
}

/// Seconds of one copy of so many numbers, the least of some.
Result<double> copy_seconds(backend::Memory& memory, bool to_host, std::size_t numbers) {
  constexpr int kCopies = 50;
  const std::vector<std::int64_t> dims{static_cast<std::int64_t>(numbers)};
  auto here = Tensor::allocate(DType::kF32, dims);
  PENSTOCK_TRY(auto there, memory.allocate(DType::kF32, here.bytes()));
  if (!there.set_dims(dims)) return internal_error("memory '", memory.name(), "' gave too little");
  PENSTOCK_CHECK_OK(memory.copy(here, there));  // Both are touched, and what is read is written.
  const auto& from = to_host ? there : here;
  auto& to = to_host ? here : there;
  double least = INFINITY;
  const auto first = Clock::now();
  for (int i = 0; i < kCopies && (i < 2 || seconds_since(first) < kMostSeconds); ++i) {
    const auto begin = Clock::now();
    PENSTOCK_CHECK_OK(memory.copy(from, to));
    least = std::min(least, seconds_since(begin));
  }
  return least;
}

}  // namespace

Result<LinkTiming> time_copies(backend::Memory& memory, bool to_host) {
  constexpr std::size_t kNumbers = std::size_t{1} << 20U;  // 4 MB
  PENSTOCK_TRY(const double latency, copy_seconds(memory, to_host, 1));
  PENSTOCK_TRY(const double long_copy, copy_seconds(memory, to_host, kNumbers));
  const double moving = std::max(long_copy - latency, long_copy / 100);  // Of noise, some is left.
  return LinkTiming{latency, static_cast<double>(kNumbers * sizeof(float)) / moving};
}

Result<LinkTiming> time_link(const std::vector<int>& from, const std::vector<int>& to) {
  if (from == to && from.size() == 1) {
    return invalid_argument("a link of cpu ", from.front(), " with itself");
  }
  PENSTOCK_CHECK_OK(device::pin_this_thread(to));  // Whether it may be used at all.
  PENSTOCK_CHECK_OK(device::pin_this_thread(from));
  Shared shared;
  std::thread other;
  PENSTOCK_CHECK_OK(start_thread(other, [&shared, &to] {
    [[maybe_unused]] const auto pinned = device::pin_this_thread(to);
    follow(shared);
  }));
  lead(shared);
  other.join();
  return LinkTiming{shared.latency, static_cast<double>(kBytes) / shared.reading};
}

}  // namespace penstock::probe
