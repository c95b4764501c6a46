// Memory: why groups do not go into the devices' memory, in sentences.
#pragma once

#include <string>

#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// Whether the devices that support them hold, all together, all the groups; and so for those that
/// only some types support. \error kFailedPrecondition names the groups, the devices, what both
/// have, and what would help.
Status check_memory(const Problem& problem);

/// A sentence as check_memory() has, for groups that pass it and still cannot be divided.
std::string undivided_text(const Problem& problem, const Options& options);

}  // namespace penstock::planner
