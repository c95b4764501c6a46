// Of the user's frames those that a build measures and judges: what its reference computes.
#pragma once

#include <filesystem>
#include <functional>

#include "penstock/backend/registry.h"
#include "penstock/measure/taken_frames.h"
#include "penstock/plan/package.h"
#include "penstock/tune/build.h"

namespace penstock::tune {

/// measure::take_frames() with `model`, a fifth of the budget at most but on those that the gate
/// judges. `package`: the whole network, whose states are handed on. Where there is no reference,
/// all are taken, and what judges them tells why. `on_long_run`: as of tell_long_run().
measure::TakenFrames take_frames(const Options& options, const std::filesystem::path& model,
                                 const plan::Package& package, const backend::Registry& backends,
                                 const std::function<void()>& on_long_run = nullptr);

}  // namespace penstock::tune
