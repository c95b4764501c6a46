// Decision: which of some plans to take, by their rounds in turn.
#pragma once

#include <compare>
#include <cstddef>
#include <optional>
#include <vector>

#include "penstock/plan/plan.h"

namespace penstock::tune {

inline constexpr double kLeastMargin = 0.005;  ///< Plans that differ by no more are as fast.
inline constexpr double kNear = 0.93;          ///< Of the best: what is slower is no rival.

/// How much a plan is made of. The first figure that differs tells which of two is the simpler.
struct Complexity {
  std::size_t stages = 0, engines = 0, parts = 0, devices = 0, replicas = 0;
  int frames_in_a_call = 1;  ///< Of the stage that takes the most.
  auto operator<=>(const Complexity&) const = default;
};

Complexity complexity_of(const plan::Plan& plan);

/// Which of some plans to take, by their scores relative to the first's: [plan][round]. The first,
/// unless the median of another is higher by more than its noise. A simpler one takes that plan's
/// place where the rounds cannot tell that it is slower, and its median is within 1 %.
std::size_t choose(const std::vector<std::vector<double>>& ratios,
                   const std::vector<Complexity>& complexities);

/// A plan that may be faster than the chosen one.
struct Doubt {
  std::size_t other = 0;
  double low = 0, high = 0;  ///< Of the ratio of its score to the chosen one's, in 95 % of cases.
};

/// The plan that may be faster than the chosen one by the most; none: more rounds would not choose
/// otherwise. `ratios` as choose() takes them.
std::optional<Doubt> doubt_of(const std::vector<std::vector<double>>& ratios, std::size_t chosen);

}  // namespace penstock::tune
