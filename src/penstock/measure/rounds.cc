// Each round begins with another side, which warms up before its frames are counted.
#include "penstock/measure/rounds.h"

#include <algorithm>
#include <chrono>

#include "penstock/base/quantile.h"

namespace penstock::measure {
namespace {

constexpr double kWarmUpShare = 0.2;    ///< Of a round's measured time, in addition to it.
constexpr double kLongestWarmUp = 0.2;  ///< Seconds.

std::chrono::nanoseconds to_ns(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(seconds));
}

}  // namespace

Result<std::vector<Measured>> measure_in_turn(std::span<Side* const> sides, const Rounds& rounds) {
  std::vector<Measured> all;
  for (const auto& side : sides) {
    all.push_back({side->name(), side->explain(), side->in_flight(), {}, {}, {}});
  }
  const auto count = static_cast<std::size_t>(rounds.count);
  const double share = rounds.seconds / static_cast<double>(count * sides.size());
  const Round round{to_ns(std::min(share * kWarmUpShare, kLongestWarmUp)), to_ns(share),
                    rounds.stopped};
  std::size_t done = 0;
  for (std::size_t number = 0; number < count; ++number) {
    for (std::size_t i = 0; i < sides.size(); ++i) {
      const std::size_t side = (number + i) % sides.size();  // Nobody is always first.
      rounds.progress(done++, count * sides.size());
      auto sample = sides[side]->measure(round);
      if (!sample) return std::move(sample).error().within({Where::kWay, sides[side]->name()});
      auto& measured = all[side];
      measured.rates.push_back(sample->frames_per_second);
      measured.latencies_ns.insert(measured.latencies_ns.end(), sample->latencies_ns.begin(),
                                   sample->latencies_ns.end());
      measured.middle_latencies_ns.push_back(quantile(sample->latencies_ns, 0.5));
      if (rounds.stopped()) return all;
    }
  }
  return all;
}

Result<std::vector<Measured>> measure_in_turn(const Sides& sides, const Rounds& rounds) {
  std::vector<Side*> turns;
  for (const auto& side : sides) turns.push_back(side.get());
  return measure_in_turn(turns, rounds);
}

}  // namespace penstock::measure
