// How many frames are pushed at once, so that all models for several frames run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "penstock/pipeline/pipeline.h"

namespace penstock {

/// First full calls of all replicas, then calls of each size; none where stages take one frame in a
/// call. What is not full waits as long as the plan says: not where that is long.
std::vector<std::size_t> bursts_of(const pipeline::Pipeline& pipeline);

/// One sentence about each stage with models for several frames that no call ran.
std::vector<std::string> unseen_sizes(const pipeline::Pipeline& pipeline);

}  // namespace penstock
