// Compares medians of the last three windows with the prediction, and allows 10 % of noise.
#include "penstock/pipeline/drift.h"

#include <algorithm>

#include "penstock/base/quantile.h"

namespace penstock::pipeline {
namespace {

constexpr std::chrono::seconds kWindow{1};
constexpr std::uint64_t kFewestFrames = 5;  ///< In a window: the median of fewer says little.
constexpr std::size_t kWindows = 3;         ///< That must agree.
constexpr double kMostOff = 1.10;           ///< Of what is within the noise.
constexpr double kLeastBusy = 0.5;          ///< Of what does not wait most of the time.

}  // namespace

double share_of_frame(const std::vector<std::uint64_t>& calls) {
  std::uint64_t count = 0, frames = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    count += calls[i];
    frames += calls[i] * (i + 1);
  }
  return frames == 0 ? 0 : static_cast<double>(count) / static_cast<double>(frames);
}

void DriftWatch::see(Clock::time_point now, const Durations& all,
                     const std::vector<std::uint64_t>& calls, std::size_t instances) {
  if (now - begin_ < kWindow) return;
  const auto seen = all.since(before_).quantiles();
  if (seen.count < kFewestFrames) return;
  const std::chrono::duration<double, std::nano> time = now - begin_;
  medians_.push_back(seen.p50_ns);
  auto of_window = calls;
  for (std::size_t i = 0; i < calls_before_.size(); ++i) of_window[i] -= calls_before_[i];
  const double computed_ns = seen.sum_ns * share_of_frame(of_window);
  shares_.push_back(computed_ns / (time.count() * static_cast<double>(instances)));
  if (medians_.size() > kWindows) {
    medians_.pop_front();
    shares_.pop_front();
  }
  begin_ = now;
  before_ = all;
  calls_before_ = calls;
}

double DriftWatch::busy() const {
  return shares_.empty() ? 0 : median(std::vector<double>(shares_.begin(), shares_.end()));
}

std::optional<Drift> DriftWatch::against(double predicted_ns, double busiest) const {
  if (medians_.empty()) return std::nullopt;
  std::vector<double> sorted(medians_.begin(), medians_.end());
  Drift drift{.predicted_ns = predicted_ns, .seen_ns = median(sorted)};
  drift.ratio = drift.seen_ns / predicted_ns;
  const auto [least, most] = std::ranges::minmax(medians_);
  drift.beyond_noise = medians_.size() == kWindows && busiest >= kLeastBusy &&
                       (least > predicted_ns * kMostOff || most < predicted_ns / kMostOff);
  return drift;
}

}  // namespace penstock::pipeline
