// Compares medians of the last three windows with the prediction, and allows 10 % of noise.
#include "penstock/pipeline/drift.h"

#include <algorithm>
#include <vector>

#include "penstock/base/quantile.h"

namespace penstock::pipeline {
namespace {

constexpr std::chrono::seconds kWindow{1};
constexpr std::uint64_t kFewestFrames = 5;  ///< In a window: the median of fewer says little.
constexpr std::size_t kWindows = 3;         ///< That must agree.
constexpr double kMostOff = 1.10;           ///< Of what is within the noise.

}  // namespace

void DriftWatch::see(Clock::time_point now, const Durations& all) {
  if (now - begin_ < kWindow) return;
  const auto seen = all.since(before_).quantiles();
  if (seen.count < kFewestFrames) return;
  medians_.push_back(seen.p50_ns);
  if (medians_.size() > kWindows) medians_.pop_front();
  begin_ = now;
  before_ = all;
}

std::optional<Drift> DriftWatch::against(double predicted_ns) const {
  if (medians_.empty()) return std::nullopt;
  std::vector<double> sorted(medians_.begin(), medians_.end());
  Drift drift{.predicted_ns = predicted_ns, .seen_ns = median(sorted)};
  drift.ratio = drift.seen_ns / predicted_ns;
  const auto [least, most] = std::ranges::minmax(medians_);
  drift.beyond_noise = medians_.size() == kWindows &&
                       (least > predicted_ns * kMostOff || most < predicted_ns / kMostOff);
  return drift;
}

}  // namespace penstock::pipeline
