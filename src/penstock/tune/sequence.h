// Frames of a network whose states come from the frame before.
#pragma once

#include <filesystem>
#include <span>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/measure/side.h"
#include "penstock/plan/package.h"

namespace penstock::tune {

/// What hands states on.
struct Sequence {
  const graph::Graph& graph;
  const std::filesystem::path& model;  ///< The file that the graph is of, as it is.
  const plan::Package& package;        ///< Has the states.
  const backend::Registry& backends;
};

/// Each frame with the states that it reads, in the order of the graph's inputs. The model runs on
/// each but the last; where there are no states, on none. \error  of the model
Result<measure::Ring> with_states(const Sequence& sequence, std::span<const frames::Frame> frames);

}  // namespace penstock::tune
