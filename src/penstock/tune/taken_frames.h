// The user's frames that the reference computes: nothing is measured or judged on others.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/measure/side.h"
#include "penstock/plan/package.h"
#include "penstock/tune/build.h"

namespace penstock::tune {

struct TakenFrames {
  measure::Ring frames;
  std::vector<std::string> notes;  ///< Which are left out, each with its reason.
};

/// Runs `model` on each of `options.frames`, a fifth of the budget at most but on those that the
/// gate judges: frames behind that are left out, too. `package`: the whole network, whose states
/// are handed on; a frame that is left out leaves them as they are. Where all are refused, or there
/// is no reference, all are taken, and what judges them tells why.
TakenFrames take_frames(const Options& options, const std::filesystem::path& model,
                        const plan::Package& package, const backend::Registry& backends);

}  // namespace penstock::tune
