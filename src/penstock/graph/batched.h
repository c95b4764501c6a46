// A model of one frame -> the model of several frames in one call.
#pragma once

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/graph/subgraph.h"

namespace penstock::graph {

/// The part as a graph of its own that takes `frames` frames in one call: the first dimension of
/// each of its inputs and outputs, parameters left out, is so many times as large and holds the
/// frames one after the other. Nothing else of its names and types changes; weights are shared.
///
/// Each value either is the same for all frames, or holds them one after the other along one known
/// axis. A rule for each operator says which of its outputs do so where its inputs do, and what
/// constants that count the frames (of Reshape, Resize, a first state) must become; ONNX's shape
/// inference must agree. Sizes may stay open: a call is of frames of one shape, what a node counts
/// of it is divided by their number, and shapes made of that are multiplied again, by nodes that
/// are added. So they are where the batch of an input or output is not its first dimension, as in
/// the states of several layers. What no rule proves is refused.
///
/// \pre  frames >= 2
/// \error kFailedPrecondition  names the node that stops it and says why; or the input or output
///                             that has no first dimension of frames, and the node that reads it.
Result<Graph> batched(const Subgraph& part, int frames);

}  // namespace penstock::graph
