// Parses a number with the unit s, m or h, and adds up trials and the last comparison.
#include "penstock/tune/budget.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace penstock::tune {

Result<double> parse_budget(const std::string& text) {
  constexpr double kMost = 1e7;
  double value = 0;
  const auto* end = text.data() + text.size();
  const auto [stop, problem] = std::from_chars(text.data(), end, value);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : 0;
  if (problem != std::errc() || scale == 0 || !(value > 0) || !(value * scale < kMost)) {
    return invalid_argument("expected a time such as 60s, 5m or 1h, found '", text, "'");
  }
  return value * scale;
}

double least_seconds(const Needs& needs) {
  constexpr double kLeastTurns = 1;  // Seconds of a plan's turns beside the best so far.
  const auto whole = static_cast<double>(needs.whole_networks);
  const auto compared = static_cast<double>(needs.compared);
  const double run = needs.trial_seconds > 0 ? std::max(needs.trial_seconds, kLeastTurns) : 0;
  return needs.spent_seconds + needs.trial_seconds * (whole + compared) + run * whole +
         needs.comparison_seconds;
}

}  // namespace penstock::tune
