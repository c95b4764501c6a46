// Histogram: durations, written by one thread, read by any.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <vector>

#include "penstock/pipeline/durations.h"
#include "penstock/pipeline/stats.h"

namespace penstock::pipeline {

/// Log-linear buckets of 32 steps an octave: a quantile is within 3 %. No locks, no allocation.
class Histogram {
 public:
  /// One thread at a time.
  void record(std::int64_t duration_ns) {
    const auto value = static_cast<std::uint64_t>(duration_ns > 0 ? duration_ns : 0);
    bump(buckets_[bucket_of(value)]);
    if (value > max_.load(std::memory_order_relaxed)) max_.store(value, std::memory_order_relaxed);
  }

  /// All `parts` together (the replicas of a stage).
  static Durations durations(const std::vector<const Histogram*>& parts);
  static Quantiles quantiles(const std::vector<const Histogram*>& parts) {
    return durations(parts).quantiles();
  }

 private:
  friend struct Durations;
  static constexpr unsigned kStepBits = 5;
  static constexpr unsigned kOctaves = 40;  // up to 2^40 ns, 18 minutes; longer counts as that
  static constexpr std::size_t kBuckets = (kOctaves - kStepBits + 1) << kStepBits;

  static std::size_t bucket_of(std::uint64_t value) {
    if (value < (1U << kStepBits)) return value;
    const unsigned shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kStepBits;
    const std::size_t bucket = ((shift + 1) << kStepBits) + (value >> shift) - (1U << kStepBits);
    return bucket < kBuckets ? bucket : kBuckets - 1;
  }
  static double middle_of(std::size_t bucket);

  static void bump(std::atomic<std::uint64_t>& counter) {
    counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  std::array<std::atomic<std::uint64_t>, kBuckets> buckets_{};
  std::atomic<std::uint64_t> max_{0};
};

}  // namespace penstock::pipeline
