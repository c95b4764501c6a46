// Compares medians with their intervals and, where these meet, what the plans are made of.
#include "penstock/tune/decision.h"

#include <algorithm>
#include <set>
#include <string>

#include "penstock/base/quantile.h"
#include "penstock/cost/statistics.h"
#include "penstock/device/device.h"

namespace penstock::tune {
namespace {

constexpr double kLeastMedian = 0.99;  ///< Of the fastest's, of a simpler plan in its place.

/// The first, unless the median of another is higher by more than its noise.
std::size_t fastest_of(const std::vector<std::vector<double>>& ratios) {
  std::vector<double> medians;
  for (const auto& of_one : ratios) medians.push_back(median(of_one));
  const auto most = std::ranges::max_element(medians) - medians.begin();
  return medians[static_cast<std::size_t>(most)] < 1 + kLeastMargin
             ? 0
             : static_cast<std::size_t>(most);
}

/// What the other did in each round, of what the one did.
std::vector<double> gains_over(const std::vector<std::vector<double>>& ratios, std::size_t one,
                               std::size_t other) {
  std::vector<double> gains;
  for (std::size_t i = 0; i < ratios[other].size(); ++i) {
    gains.push_back(ratios[other][i] / ratios[one][i]);
  }
  return gains;
}

/// By these gains over the fastest: whether it is not clear that they are below 1. Of a few rounds
/// that all say so it is.
bool may_be_as_fast(const std::vector<double>& gains) {
  const auto gain = cost::median_of(gains);
  const double most = std::min(gain.high, std::ranges::max(gains));
  return gain.value >= kLeastMedian && most > 1 - kLeastMargin;
}

}  // namespace

Complexity complexity_of(const plan::Plan& plan) {
  Complexity of{.stages = plan.stages.size()};
  std::set<std::string> engines, devices;
  for (const auto& stage : plan.stages) {
    for (const auto& partition : stage.partitions) engines.insert(partition.backend);
    for (const auto& device : stage.devices) devices.insert(device::to_string(device));
    of.parts += stage.partitions.size();
    of.replicas += stage.devices.size();
    of.frames_in_a_call = std::max(of.frames_in_a_call, stage.batch.frames);
  }
  of.engines = engines.size();
  of.devices = devices.size();
  return of;
}

std::size_t choose(const std::vector<std::vector<double>>& ratios,
                   const std::vector<Complexity>& complexities) {
  const auto fastest = fastest_of(ratios);
  auto chosen = fastest;
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    if (complexities[i] < complexities[chosen] && may_be_as_fast(gains_over(ratios, fastest, i))) {
      chosen = i;
    }
  }
  return chosen;
}

std::optional<Doubt> doubt_of(const std::vector<std::vector<double>>& ratios, std::size_t chosen) {
  std::optional<Doubt> widest;
  for (std::size_t other = 0; other < ratios.size(); ++other) {
    if (other == chosen) continue;
    const auto gain = cost::median_of(gains_over(ratios, chosen, other));
    if (gain.high < 1 + kLeastMargin) continue;
    if (!widest || gain.high > widest->high) widest = Doubt{other, gain.low, gain.high};
  }
  return widest;
}

}  // namespace penstock::tune
