// One job from its models to its report.
#pragma once

#include <functional>
#include <string>

#include "penstock/backend/registry.h"
#include "penstock/cost/job.h"

namespace penstock::probe {

/// Blocks until the job is done, on the calling thread, whose CPUs and floating-point mode it
/// changes, and on threads of its own where there are neighbours. `alive` tells how far it is.
cost::JobReport execute(const cost::Job& job, const backend::Registry& backends,
                        const std::function<void(const std::string& phase)>& alive);

}  // namespace penstock::probe
