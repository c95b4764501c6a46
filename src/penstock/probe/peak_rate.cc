// Sums the threads' rates over their CPU time; a round is quiet if each had its CPU throughout.
#include "penstock/probe/peak_rate.h"

#include <algorithm>
#include <cmath>

namespace penstock::probe {
namespace {

constexpr double kQuiet = 0.95;  // Of a round's time, which each thread had its CPU.

}  // namespace

PeakRate peak_rate_of(const std::vector<PeakTurn>& turns) {
  PeakRate rate{0, true};
  double begin = INFINITY, end = 0;
  for (const auto& turn : turns) {
    begin = std::min(begin, turn.begin);
    end = std::max(end, turn.end);
    rate.per_second += turn.amount / turn.computed;
  }
  for (const auto& turn : turns) rate.quiet &= turn.computed >= kQuiet * (end - begin);
  return rate;
}

}  // namespace penstock::probe
