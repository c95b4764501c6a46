// Plans before the gate once more, on frames of other sizes than those that are measured.
#pragma once

#include "penstock/base/result.h"
#include "penstock/tune/context.h"

namespace penstock::tune {

/// Where random frames have sizes of their own choice, the best plan is judged on a few of other
/// sizes too, as verify() judges its package: a plan that is wrong there is refused, and another is
/// the best now. Warns where the network takes no other sizes.
/// \returns whether the best plan is right there, or nothing can be said. \error no_plan()
Result<bool> stands_other_sizes(Context& context);

}  // namespace penstock::tune
