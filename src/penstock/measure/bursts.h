// How many frames of how many streams are pushed at once, so that all calls for several run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "penstock/pipeline/pipeline.h"

namespace penstock::measure {

/// Streams that take turns: as many as fill the calls of all replicas of a stage that takes one
/// frame of each, two at least, where the plan has as many; 1 where there are no states.
std::uint64_t streams_in_turn(const pipeline::Pipeline& pipeline);

/// First full calls of all replicas, then calls of each size; none where stages take one frame in a
/// call. What is not full waits as long as the plan says: not where that is long.
std::vector<std::size_t> bursts_of(const pipeline::Pipeline& pipeline);

/// Whether more bursts may run a model for several frames that no call ran.
bool may_see_more(const pipeline::Pipeline& pipeline);

/// One sentence about each stage with models for several frames that no call ran, and what may
/// help.
std::vector<std::string> unseen_sizes(const pipeline::Pipeline& pipeline);

}  // namespace penstock::measure
