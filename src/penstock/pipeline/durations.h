// Durations: how often each one was seen, as values that can be subtracted.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/pipeline/stats.h"

namespace penstock::pipeline {

/// By buckets of 3 %; see histogram.h. Empty: none.
struct Durations {
  std::vector<std::uint64_t> counts;
  std::uint64_t max_ns = 0;

  /// Of what was seen; its `max_ns` is within 3 % where this is a difference.
  [[nodiscard]] Quantiles quantiles() const;
  /// What was seen since `earlier`, of the same source.
  [[nodiscard]] Durations since(const Durations& earlier) const;
};

}  // namespace penstock::pipeline
