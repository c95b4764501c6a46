// Typical: which frames stand for all where the parts of a network are timed with a few.
#pragma once

#include <cstddef>

#include "penstock/measure/side.h"

namespace penstock::tune {

/// `count` of them, or all where there are fewer. Frames of unlike sizes take unlike times, and
/// parts are timed with the first one's: it is the one whose tensors' bytes are nearest to the mean
/// of all; the others follow in their order, as all do where the sizes are one.
measure::Ring typical_first(const measure::Ring& frames, std::size_t count);

}  // namespace penstock::tune
