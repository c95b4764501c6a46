// Graph outputs that no node makes.
#pragma once

#include <memory>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"

namespace penstock::partition {

using Stages = std::vector<std::vector<graph::NodeId>>;

/// A graph whose stages can all be written as models that read inputs and write outputs.
struct Writable {
  std::unique_ptr<graph::Graph> changed;  ///< A shallow copy, where something had to be added.
  Stages stages;
};

/// A constant that is an output is copied by an Identity, added to the last stage. An input that
/// is an output needs no stage; if no node is left at all, an Identity of it is made (and read by
/// nobody), for there is no model without outputs.
/// \error kUnimplemented  a parameter is an output.
Result<Writable> make_writable(const graph::Graph& graph, Stages stages);

}  // namespace penstock::partition
