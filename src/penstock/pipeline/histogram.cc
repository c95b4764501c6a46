#include "penstock/pipeline/histogram.h"

#include <algorithm>
#include <cmath>

namespace penstock::pipeline {

double Histogram::middle_of(std::size_t bucket) {
  constexpr std::size_t kSteps = 1U << kStepBits;
  if (bucket < kSteps) return static_cast<double>(bucket);
  const std::size_t shift = (bucket >> kStepBits) - 1;
  const auto low = static_cast<double>((bucket & (kSteps - 1)) + kSteps);
  return std::ldexp(low + 0.5, static_cast<int>(shift));
}

Quantiles Histogram::quantiles(const std::vector<const Histogram*>& parts) {
  std::vector<std::uint64_t> sums(kBuckets, 0);
  Quantiles result;
  std::uint64_t max = 0;
  for (const Histogram* part : parts) {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      const auto count = part->buckets_[i].load(std::memory_order_relaxed);
      sums[i] += count;
      result.count += count;
    }
    max = std::max(max, part->max_.load(std::memory_order_relaxed));
  }
  result.max_ns = static_cast<double>(max);
  const auto at = [&](double share) {
    const auto rank =
        static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(result.count)));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < kBuckets; ++i) {
      seen += sums[i];
      if (seen >= rank && seen > 0) return std::min(middle_of(i), result.max_ns);
    }
    return 0.0;
  };
  result.p50_ns = at(0.50);
  result.p90_ns = at(0.90);
  result.p99_ns = at(0.99);
  return result;
}

}  // namespace penstock::pipeline
