// The steps of a search, in their order: each proposes plans by what those before have measured.
#pragma once

#include "penstock/base/result.h"
#include "penstock/tune/context.h"
#include "penstock/tune/proposals.h"

namespace penstock::tune {

inline constexpr double kSearchSeconds = 2;  ///< Of one search of the planner.

/// One backend for the whole network, on each device and on all CPUs at once; of the best, the file
/// as it is as well. What there is no time for is left out, but for the first that runs.
/// \error kCancelled, and of the profiler and the contest, as of all steps
Status try_whole_networks(Context& context, Proposals& proposals);

/// The whole network on accelerators alone, where a backend takes it whole there, on one and on all
/// that are alike. Measures what they take of its pieces, for try_beside_accelerators().
Status try_accelerators(Context& context, Proposals& proposals);

/// Pipelines of the best cover on CPUs with stages on accelerators, by what was measured on each
/// and by the copies between their memories.
Status try_beside_accelerators(Context& context, Proposals& proposals);

/// Plans on devices of several CPUs, unlike in width, on some or all CPUs; where the user named no
/// devices, and there are others than one for each CPU and one of all.
Status try_groupings(Context& context, Proposals& proposals);

/// Several backends in one stage, where that is cheaper by the measured parts.
Status try_covers(Context& context, Proposals& proposals);

/// Pipelines of the best cover; and of the best of them once more with another backend for the
/// stages that are faster by it.
Status try_pipelines(Context& context, Proposals& proposals);

/// The best plan with several frames in one call of its stages, where the user allows that and the
/// stages gain by it.
Status try_batches(Context& context, Proposals& proposals);

}  // namespace penstock::tune
