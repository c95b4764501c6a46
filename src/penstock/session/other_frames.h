// Further frames for outputs of which the usual random ones say nothing, or little.
#pragma once

#include <functional>
#include <string>

#include "penstock/base/result.h"
#include "penstock/measure/verify.h"
#include "penstock/session/judging.h"

namespace penstock {

/// Outputs that no usual random frame changes, as a class of which a network is always sure, or a
/// sigmoid behind a large offset, are judged on other random numbers, as large and of other sizes,
/// where some are found that tell frames apart.
Status try_other_scales(const VerifyRun& usual, measure::VerifyReport& report);

/// Where sizes are open, frames of the usual ones may say little: of one step a softmax is 1, and a
/// network with states inside never reads them. `warn` hears where there are no others to try.
Status try_other_sizes(const VerifyRun& usual, measure::VerifyReport& report,
                       const std::function<void(const std::string&)>& warn);

}  // namespace penstock
