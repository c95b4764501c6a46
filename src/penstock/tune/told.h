// Why a trial failed, as a report tells it.
#pragma once

#include <string>

#include "penstock/cost/database.h"

namespace penstock::tune {

inline constexpr double kLeastSilence = 5;  ///< Seconds of compiling, or of one run, that are no
inline constexpr double kMostSilence = 60;  ///< hang: a share of the budget within these bounds.

/// "hang: compiling did not end within 10 s", with what would give it longer than the
/// `silence_seconds` that it was given; of others what they are and the reason.
std::string told(const cost::Failure& failure, double silence_seconds);

}  // namespace penstock::tune
