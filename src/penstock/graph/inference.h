// Types of values, as far as ONNX's shape inference and the engine know them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/import.h"
#include "penstock/graph/model_proto.h"

namespace penstock::graph {

/// Integers that inference has computed on its way: shapes and arithmetic on them.
using KnownIntegers = std::map<ValueId, std::vector<std::int64_t>>;

/// Where the types that a graph already has come from.
enum class Source { kFile, kInference };

/// All nodes; what is too large to stand in a message becomes an input.
Part inference_part(const Graph& graph);

/// Improves the type of every value that a node makes. Sizes that the file declares give way where
/// inference finds a dimension open: exporters leave stale ones behind. `refused`: how many nodes
/// cannot have inputs of these types.
KnownIntegers infer_types(Graph& graph, Source source, std::size_t* refused = nullptr);

/// Asks the engine for the types that are still unknown, and infers again.
void ask_engine(Graph& graph, const Engine& engine);

/// "'x', 'state'", or "none".
std::string names_of_inputs(const Graph& graph);

/// Binds and bounds the inputs' dimensions; one symbol gets one size wherever it stands.
/// \error kNotFound, kInvalidArgument
Status bind_shapes(Graph& graph, const std::map<std::string, std::vector<Dim>>& shapes);

/// Gives open dimensions the bound that the inputs' bounds lead to.
void bound_dimensions(Graph& graph);

}  // namespace penstock::graph
