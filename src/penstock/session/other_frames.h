// Further frames for outputs of which the usual random ones say nothing, or little.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/frames/random.h"
#include "penstock/measure/reference.h"
#include "penstock/measure/verify.h"
#include "penstock/plan/plan.h"
#include "penstock/session/judging.h"

namespace penstock {

/// The first other sizes that the network takes where those of its inputs are open, tried on frames
/// of random values in its reference, which begins a sequence. Nothing: it takes none that were.
std::optional<std::vector<plan::TensorInfo>> find_other_sizes(
    const std::vector<plan::TensorInfo>& inputs, const frames::RandomValues& random,
    measure::Reference& reference, const std::function<bool()>& stopped);

/// Whether there are others than the usual ones at all.
bool have_other_sizes(const std::vector<plan::TensorInfo>& inputs);

/// A warning for a person, where the network takes none of them.
std::string tell_usual_sizes(const std::vector<plan::TensorInfo>& inputs);

/// Outputs that no usual random frame changes, as a class of which a network is always sure, or a
/// sigmoid behind a large offset, are judged on other random numbers, as large and of other sizes,
/// where some are found that tell frames apart.
Status try_other_scales(const VerifyRun& usual, measure::VerifyReport& report);

/// Where sizes are open, frames of the usual ones may say little: of one step a softmax is 1, and a
/// network with states inside never reads them. `warn` hears where there are no others to try.
Status try_other_sizes(const VerifyRun& usual, measure::VerifyReport& report,
                       const std::function<void(const std::string&)>& warn);

}  // namespace penstock
