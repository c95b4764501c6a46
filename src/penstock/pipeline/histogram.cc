// Adds up buckets of several histograms, and takes quantiles and differences of the sums.
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

Durations Histogram::durations(const std::vector<const Histogram*>& parts) {
  Durations made;
  made.counts.resize(kBuckets);
  for (const Histogram* part : parts) {
    for (std::size_t i = 0; i < kBuckets; ++i) {
      made.counts[i] += part->buckets_[i].load(std::memory_order_relaxed);
    }
    made.max_ns = std::max(made.max_ns, part->max_.load(std::memory_order_relaxed));
  }
  return made;
}

Quantiles Durations::quantiles() const {
  Quantiles result;
  result.max_ns = static_cast<double>(max_ns);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    result.count += counts[i];
    result.sum_ns += static_cast<double>(counts[i]) * Histogram::middle_of(i);
  }
  const auto at = [&](double share) {
    const auto rank =
        static_cast<std::uint64_t>(std::ceil(share * static_cast<double>(result.count)));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      seen += counts[i];
      if (seen >= rank && seen > 0) return std::min(Histogram::middle_of(i), result.max_ns);
    }
    return 0.0;
  };
  result.p50_ns = at(0.50);
  result.p90_ns = at(0.90);
  result.p99_ns = at(0.99);
  return result;
}

Durations Durations::since(const Durations& earlier) const {
  Durations made;
  made.counts = counts;
  for (std::size_t i = 0; i < std::min(counts.size(), earlier.counts.size()); ++i) {
    made.counts[i] -= std::min(counts[i], earlier.counts[i]);
  }
  for (std::size_t i = made.counts.size(); i > 0; --i) {
    if (made.counts[i - 1] == 0) continue;
    made.max_ns =
        std::min(max_ns, static_cast<std::uint64_t>(std::ceil(Histogram::middle_of(i - 1))));
    break;
  }
  return made;
}

}  // namespace penstock::pipeline
