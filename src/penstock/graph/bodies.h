// The graphs nested in nodes that stay: branches of an If, bodies of a Loop or Scan. Internal to
// graph.
#pragma once

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/import.h"

namespace penstock::graph {

/// A graph nested in the node as one of its own: what it captures is constant or an input, behind
/// its own inputs. Types are as the file has them. \error as draft_of()
Result<Draft> draft_of_body(const Graph& graph, const Node& node, const onnx::GraphProto& nested);

/// Simplifies each nested graph where that takes an If out of it, at any depth; all others stay as
/// the file has them. Leaves the graph linked and compact. \returns whether there was one.
Result<bool> simplify_bodies(Draft& draft, const Engine& engine);

}  // namespace penstock::graph
