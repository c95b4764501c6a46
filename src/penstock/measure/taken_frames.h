// The user's frames that the reference computes: nothing is measured or judged on others.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "penstock/measure/reference.h"
#include "penstock/measure/side.h"

namespace penstock::measure {

struct TakenFrames {
  Ring frames;
  std::vector<std::string> notes;  ///< Which are left out, each with its reason.
};

/// Frames that a user gave, and how long they may be tried.
struct GivenFrames {
  const Ring& frames;
  const std::vector<std::string>& names;  ///< Of each, what a person calls it; none: its number.
  double seconds = 0;     ///< Once these are spent, frames behind those tried are left out, too,
  std::size_t least = 1;  ///< but for so many that are taken.
  std::function<bool()> stopped = [] { return false; };
};

/// Runs the reference on each frame, none of them for longer than kLongestRun. One that is left out
/// leaves the states as they are. Where all are refused, all are taken, and what measures them
/// tells why.
TakenFrames take_frames(Reference& reference, const GivenFrames& given);

}  // namespace penstock::measure
