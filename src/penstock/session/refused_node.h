// What an engine refuses, in the words of the network.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/error.h"
#include "penstock/graph/graph.h"
#include "penstock/plan/package.h"

namespace penstock {

/// An engine that refuses a stage's model names a node or an operator at most. \returns the error
/// with that node and the types of what it reads, where the model has it; else as it is.
Error name_refused_node(Error error, const plan::Package& package);
/// The same of a whole network, whatever stage it is of.
Error name_refused_node(Error error, const graph::Graph& graph);

/// What ONNX Runtime, which runs what no other backend takes and says what is right, will refuse in
/// the network, as far as that is known before it is compiled: graph::refusal_of(), with the node
/// and what may help. Empty: nothing is known.
std::string foretell_refusal(const graph::Graph& graph, const backend::Registry& backends,
                             const std::vector<std::filesystem::path>& custom_ops);

}  // namespace penstock
