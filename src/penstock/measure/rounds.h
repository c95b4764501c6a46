// Measuring several ways side by side: they take turns, and the median round counts.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "penstock/measure/side.h"

namespace penstock::measure {

/// What one way's rounds gave.
struct Measured {
  std::string name, explain;
  int in_flight = 1;
  std::vector<double> rates;                ///< Frames per second of each round.
  std::vector<float> latencies_ns;          ///< Of all counted frames.
  std::vector<double> middle_latencies_ns;  ///< The median of each round's.
};

struct Rounds {
  double seconds = 10;  ///< Of measured time in all, shared by the ways.
  int count = 5;
  std::function<bool()> stopped = [] { return false; };
  std::function<void(std::size_t done, std::size_t of)> progress = [](std::size_t, std::size_t) {};
};

/// One Measured for each side, in their order; fewer rounds where it was stopped.
/// \error  a side's, its name the outermost place, of kind kWay.
Result<std::vector<Measured>> measure_in_turn(std::span<Side* const> sides, const Rounds& rounds);
Result<std::vector<Measured>> measure_in_turn(const Sides& sides, const Rounds& rounds);

}  // namespace penstock::measure
