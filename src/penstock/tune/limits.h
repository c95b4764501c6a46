// How far a plan is from what the machine could do, and which values its parts hand over.
#pragma once

#include <vector>

#include "penstock/cost/peaks.h"
#include "penstock/graph/graph.h"
#include "penstock/partition/split.h"
#include "penstock/tune/report.h"

namespace penstock::tune {

/// What measured times are compared with.
struct Roofs {
  std::vector<cost::Peaks> stages;  ///< Of each stage's first device, by itself.
  cost::Peaks machine;              ///< Of all devices of the build together.
};

/// Adds to the report's nodes and parts the least time that their devices need for them, and to the
/// report that of a frame on all devices together, by cost::limit_of(). Parts in a lower precision
/// and operators on other types than fp32 are left out of computing, which a note tells. Frames of
/// one call read the weights together; of the whole, as many as in the largest call of `batches`.
/// \pre  the report's nodes and parts are those of the stages, with their times; a roof for each
///       stage, with peaks
void describe_limits(const graph::Graph& graph, const std::vector<partition::ChosenStage>& stages,
                     const partition::Batches& batches, const Roofs& roofs, Report& report);

}  // namespace penstock::tune
