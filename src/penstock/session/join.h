// The stages of a package as one graph again.
#pragma once

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/plan/package.h"

namespace penstock {

/// The operator of a node that stands for what is no network: a function, or a model of a server.
inline constexpr const char* kOpaque = "penstock.opaque";

/// The whole network as its stages have it, or all of an application together, parameters at their
/// defaults; states are inputs and outputs behind the others. Borrows the package's files, which
/// its constants are mapped from. \error as graph::import_onnx() and read_npy()
Result<graph::Graph> join_stages(const plan::Package& package);

}  // namespace penstock
