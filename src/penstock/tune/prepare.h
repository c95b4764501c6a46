// What a build does before it searches: devices, frames, the simple ways, the gate.
#pragma once

#include "penstock/base/result.h"
#include "penstock/tune/context.h"

namespace penstock::tune {

/// Chooses devices and ways, makes the frames, tries the simple ways, and runs the reference, so
/// that all of the context is there and its contest is empty.
/// \error kInvalidArgument  nothing is left to build
/// \error kFailedPrecondition, kCancelled  the reference does not run
/// \error as build_model()
Status prepare(Context& context);

/// A contest without entries takes the place of the one before. With `refresh` it takes nothing
/// from the database. \pre context.gate
void start_contest(Context& context, bool refresh);

}  // namespace penstock::tune
