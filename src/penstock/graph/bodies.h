// The graphs nested in nodes that stay. Internal to graph.
// They are branches of an If, and bodies of a Loop or Scan.
#pragma once

#include <utility>
#include <vector>

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/import.h"

namespace penstock::graph {

/// A graph nested in the node as one of its own: what it captures is constant or an input, behind
/// its own inputs. Types are as the file has them. \error as draft_of()
Result<Draft> draft_of_body(const Graph& graph, const Node& node, const onnx::GraphProto& nested);

/// A graph nested in a node, to look into: linked, its types inferred.
struct Body {
  Graph graph;
  /// What the node reads or captures, and the input of `graph` that it is. A Loop's count and
  /// condition are none.
  std::vector<std::pair<ValueId, ValueId>> read;
  /// An output of the node, and that of `graph` which makes it.
  std::vector<std::pair<ValueId, ValueId>> made;
};

/// Those of the node, but for what no engine would take.
std::vector<Body> bodies_of(const Graph& graph, const Node& node);

/// Simplifies each nested graph where that takes an If out of it, at any depth; all others stay as
/// the file has them. Leaves the graph linked and compact. \returns whether there was one.
Result<bool> simplify_bodies(Draft& draft, const Engine& engine);

}  // namespace penstock::graph
