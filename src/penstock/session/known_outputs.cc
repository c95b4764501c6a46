#include "penstock/session/known_outputs.h"

#include <algorithm>
#include <limits>
#include <span>
#include <string_view>

#include "penstock/session/join.h"

namespace penstock {
namespace {

/// Their small values are what is left of 1; those of Tanh and Erf are not.
constexpr std::string_view kComputesWithOne[] = {"Sigmoid", "Softplus", "Elu",
                                                 "Selu",    "Celu",     "LogSoftmax"};
constexpr std::string_view kMoves[] = {"Reshape",      "Transpose",    "Squeeze", "Unsqueeze",
                                       "Flatten",      "Identity",     "Concat",  "Slice",
                                       "Split",        "Gather",       "Expand",  "Tile",
                                       "DepthToSpace", "SpaceToDepth", "Pad",     "Clip"};

bool is_any(std::string_view op, std::span<const std::string_view> ops) {
  return std::ranges::find(ops, op) != ops.end();
}

/// Whether `value` holds what such a function gave.
bool computes_with_one(const graph::Graph& graph, graph::ValueId value) {
  for (;;) {
    if (value == graph::ValueId::kNone || !graph.value(value).producer) return false;
    const auto& node = graph.nodes[graph::index(*graph.value(value).producer)];
    if (!node.domain.empty()) return false;
    if (is_any(node.op, kComputesWithOne)) return true;
    if (!is_any(node.op, kMoves) || node.inputs.empty()) return false;
    if (node.op == "Concat") {
      return std::ranges::any_of(node.inputs,
                                 [&](auto input) { return computes_with_one(graph, input); });
    }
    value = node.inputs.front();
  }
}

/// Of a clean import, what hangs on constants alone is one, but for what could not be folded.
bool depends_on_no_input(const graph::Graph& graph, graph::ValueId value) {
  while (graph.value(value).producer) {
    const auto& node = graph.nodes[graph::index(*graph.value(value).producer)];
    if (node.op != "Identity" && node.op != "Constant") return false;
    if (node.inputs.empty()) return true;
    value = node.inputs.front();
  }
  return !graph.value(value).is_input;
}

}  // namespace

std::vector<measure::KnownOutput> known_outputs(const plan::Package& package) {
  constexpr double kEightUnits = 8.0 * std::numeric_limits<float>::epsilon();
  std::vector<measure::KnownOutput> known(package.plan.outputs.size());
  const auto graph = join_stages(package);
  if (!graph) return known;
  for (std::size_t i = 0; i < known.size() && i < graph->outputs.size(); ++i) {
    if (computes_with_one(*graph, graph->outputs[i])) known[i].last_rounding = kEightUnits;
    known[i].constant = depends_on_no_input(*graph, graph->outputs[i]);
  }
  return known;
}

}  // namespace penstock
