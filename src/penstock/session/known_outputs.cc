// Walks the joined graph: back to an output's last function, and forward from random nodes.
#include "penstock/session/known_outputs.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <string_view>
#include <vector>

#include "penstock/base/option_name.h"
#include "penstock/cost/work.h"
#include "penstock/graph/randomness.h"
#include "penstock/session/join.h"
#include "penstock/tensor/number.h"

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

/// Whether `value` holds what such a function gave. `seen`: what was looked at.
bool computes_with_one(const graph::Graph& graph, graph::ValueId value,
                       std::set<graph::ValueId>& seen) {
  while (seen.insert(value).second) {
    if (value == graph::ValueId::kNone || !graph.value(value).producer) return false;
    const auto& node = graph.nodes[graph::index(*graph.value(value).producer)];
    if (!node.domain.empty()) return false;
    if (is_any(node.op, kComputesWithOne)) return true;
    if (!is_any(node.op, kMoves) || node.inputs.empty()) return false;
    if (node.op == "Concat") {
      return std::ranges::any_of(node.inputs,
                                 [&](auto input) { return computes_with_one(graph, input, seen); });
    }
    value = node.inputs.front();
  }
  return false;  // It was looked at for another path.
}

/// Whether the node may round numbers to integers: what it does inside is not looked at.
bool may_round(const graph::Graph& graph, const graph::Node& node) {
  const bool nested = node.op == "If" || node.op == "Loop" || node.op == "Scan";
  if (!node.domain.empty() || node.op == kOpaque || nested) return true;
  const auto is_narrow = [&](graph::ValueId id) {
    if (id == graph::ValueId::kNone) return false;
    const auto dtype = graph.value(id).type.dtype;
    return dtype == DType::kU8 || dtype == DType::kI8;
  };
  const auto is_number = [&](graph::ValueId id) {
    return id != graph::ValueId::kNone && is_float(graph.value(id).type.dtype);
  };
  const bool casts = node.op == "Cast" || node.op == "CastLike";
  return (casts || std::ranges::any_of(node.outputs, is_narrow)) &&
         std::ranges::any_of(node.inputs, is_number);
}

/// Whether the integers of `output` are numbers that were rounded, or may be: another engine may
/// round a tie, or what lies near one, to the next integer. Classes, indices and masks come of
/// comparing numbers, not of rounding them.
bool is_rounded(const graph::Graph& graph, graph::ValueId output) {
  std::vector<graph::ValueId> next{output};
  std::set<graph::ValueId> seen;
  while (!next.empty()) {
    const auto id = next.back();
    next.pop_back();
    if (id == graph::ValueId::kNone || !seen.insert(id).second) continue;
    const auto& value = graph.value(id);
    if (is_float(value.type.dtype) || !value.producer) continue;
    const auto& node = graph.nodes[graph::index(*value.producer)];
    if (may_round(graph, node)) return true;
    next.insert(next.end(), node.inputs.begin(), node.inputs.end());
  }
  return false;
}

/// What reaches each value.
struct Reaching {
  const graph::Node* drawn = nullptr;  ///< Draws random numbers.
  bool half = false;                   ///< What is computed in, or rounded to, f16,
  bool narrow = false;                 ///< or bf16.
  bool varies = false;                 ///< What inputs hold, not only their shapes.
  bool sizes_vary = false;             ///< Its own shape is told by what inputs hold.
  bool length_varies = false;          ///< How many tensors a sequence or an optional holds.
};

/// Whether the node's numbers are rounded to `narrow`. What moves them, or widens them, keeps them.
bool rounds_to(DType narrow, const graph::Graph& graph, const graph::Node& node) {
  const auto is_narrow = [&](graph::ValueId id) {
    return id != graph::ValueId::kNone && graph.value(id).type.dtype == narrow;
  };
  const auto is_other_float = [&](graph::ValueId id) {
    return id != graph::ValueId::kNone && !is_narrow(id) && is_float(graph.value(id).type.dtype);
  };
  const bool writes = std::ranges::any_of(node.outputs, is_narrow);
  const bool adds = node.find("reduction") != nullptr;
  if (!adds && (cost::only_moves(node) || (node.domain.empty() && node.op == "Where"))) {
    return writes && std::ranges::any_of(node.inputs, is_other_float);
  }
  return writes || std::ranges::any_of(node.inputs, is_narrow) ||
         std::ranges::any_of(node.captures, is_narrow);
}

bool reads_shapes_only(const graph::Node& node) {
  return node.domain.empty() && (node.op == "Shape" || node.op == "Size" || node.op == "EyeLike");
}

/// Whether the sizes of its outputs are told by the values it reads.
bool finds_sizes(const graph::Node& node) {
  constexpr std::string_view kFinds[] = {"NonZero", "Unique", "Compress", "NonMaxSuppression"};
  return node.domain.empty() && is_any(node.op, kFinds);
}

/// How many tensors it lists is told by the nodes that make the list, whatever the tensors hold.
bool reads_length_only(const graph::Node& node) {
  return node.domain.empty() && (node.op == "SequenceLength" || node.op == "OptionalHasElement");
}

/// Whether other values of its inputs could make a list of `node` longer or shorter.
bool length_varies(const graph::Node& node, const std::vector<Reaching>& reaching) {
  const auto input = [&](std::size_t i) {
    const bool given = i < node.inputs.size() && node.inputs[i] != graph::ValueId::kNone;
    return given ? reaching[graph::index(node.inputs[i])] : Reaching();
  };
  if (!node.domain.empty()) return true;
  if (node.op == "SplitToSequence") return input(1).varies;
  if (node.op == "SequenceInsert" || node.op == "SequenceErase" || node.op == "SequenceMap" ||
      node.op == "Identity") {
    return input(0).length_varies;
  }
  const bool is_made = node.op == "SequenceConstruct" || node.op == "SequenceEmpty";
  return !is_made && node.op != "Optional";
}

/// "node 'd' (Dropout)", and what would keep it from drawing.
std::string describe_drawn(const graph::Graph& graph, const graph::Node& node) {
  constexpr std::size_t kTraining = 2;
  std::string text = concat("node '", node.name, "' (", node.op);
  if (node.op == "Dropout" && node.inputs.size() > kTraining) {
    const auto& flag = graph.value(node.inputs[kTraining]);
    if (flag.is_input)
      text += concat(", unless '", flag.name, "' is bound to false (", OptionName::kConstants, ")");
  }
  return text + ")";
}

/// `inputs`: how many of the graph's are given. Behind them are states, which an earlier frame
/// made.
std::vector<Reaching> what_reaches(const graph::Graph& graph, std::size_t inputs) {
  std::vector<Reaching> reaching(graph.values.size());
  const auto note = [&](graph::ValueId id, Reaching& node) {
    if (id == graph::ValueId::kNone) return;
    const auto& value = reaching[graph::index(id)];
    if (value.drawn != nullptr) node.drawn = value.drawn;
    node.half = node.half || value.half;
    node.narrow = node.narrow || value.narrow;
    node.varies = node.varies || value.varies;
    node.sizes_vary = node.sizes_vary || value.sizes_vary;
  };
  for (std::size_t i = 0; i < reaching.size(); ++i) {
    reaching[i].varies = !graph.values[i].producer && !graph.values[i].constant;
    reaching[i].length_varies = reaching[i].varies;
  }
  for (const auto state : std::span(graph.inputs).subspan(inputs)) {
    const auto dtype = graph.value(state).type.dtype;
    auto& value = reaching[graph::index(state)];
    value.half = dtype == DType::kF16;
    value.narrow = value.half || dtype == DType::kBF16;
  }
  for (const auto& node : graph.nodes) {
    Reaching here;
    if (graph::is_random(graph, node)) here.drawn = &node;
    here.half = rounds_to(DType::kF16, graph, node);
    here.narrow = here.half || rounds_to(DType::kBF16, graph, node);
    here.varies = node.op == kOpaque;
    for (const auto id : node.inputs) note(id, here);
    for (const auto id : node.captures) note(id, here);
    for (const auto id : node.outputs) note(id, here);
    here.length_varies = length_varies(node, reaching);
    if (finds_sizes(node) && here.varies) here.sizes_vary = true;
    if (reads_shapes_only(node)) here.varies = here.sizes_vary;
    if (reads_length_only(node) && !node.inputs.empty()) {
      here.varies = node.inputs.front() != graph::ValueId::kNone &&
                    reaching[graph::index(node.inputs.front())].length_varies;
    }
    for (const auto id : node.outputs) {
      if (id == graph::ValueId::kNone) continue;
      auto& value = reaching[graph::index(id)] = here;
      value.sizes_vary = here.sizes_vary && !graph.value(id).type.fixed();
      const bool keeps_all = node.op == "Dropout" && here.drawn == nullptr;
      if (keeps_all && id != node.outputs.front()) value.varies = here.sizes_vary;  // Its mask.
    }
  }
  return reaching;
}

}  // namespace

std::vector<measure::KnownOutput> known_outputs(const plan::Package& package) {
  constexpr double kEightUnits = 8.0 * std::numeric_limits<float>::epsilon();
  std::vector<measure::KnownOutput> known(package.plan.outputs.size());
  const auto graph = join_stages(package);
  if (!graph) return known;
  const auto reached = what_reaches(*graph, package.plan.inputs.size());
  for (std::size_t i = 0; i < known.size() && i < graph->outputs.size(); ++i) {
    std::set<graph::ValueId> seen;
    if (computes_with_one(*graph, graph->outputs[i], seen)) known[i].last_rounding = kEightUnits;
    const auto dtype = graph->value(graph->outputs[i]).type.dtype;
    const bool narrow = dtype == DType::kU8 || dtype == DType::kI8;
    known[i].exact = narrow && !is_rounded(*graph, graph->outputs[i]);
    const auto& reaching = reached[graph::index(graph->outputs[i])];
    known[i].constant = !reaching.varies;
    known[i].half = reaching.half;
    known[i].wide = !reaching.narrow;
    if (reaching.drawn != nullptr) known[i].drawn = describe_drawn(*graph, *reaching.drawn);
  }
  return known;
}

}  // namespace penstock
