// Counts a node's operations by its kind of operator, and the bytes that cross the part's border.
#include "penstock/cost/work.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

namespace penstock::cost {
namespace {

using graph::Graph;
using graph::NodeId;
using graph::ValueId;

/// Values change their place or their shape only.
constexpr std::array<std::string_view, 29> kMovers = {"Cast",
                                                      "CastLike",
                                                      "Concat",
                                                      "Constant",
                                                      "ConstantOfShape",
                                                      "DepthToSpace",
                                                      "Dropout",
                                                      "Expand",
                                                      "Flatten",
                                                      "Gather",
                                                      "GatherElements",
                                                      "GatherND",
                                                      "Identity",
                                                      "NonZero",
                                                      "OneHot",
                                                      "Pad",
                                                      "Reshape",
                                                      "Scatter",
                                                      "ScatterElements",
                                                      "ScatterND",
                                                      "Shape",
                                                      "Size",
                                                      "Slice",
                                                      "SpaceToDepth",
                                                      "Split",
                                                      "Squeeze",
                                                      "Tile",
                                                      "Transpose",
                                                      "Unsqueeze"};

/// Of their first input they need no more than they give.
constexpr std::array<std::string_view, 6> kPickers = {"Gather", "GatherElements", "GatherND",
                                                      "Shape",  "Size",           "Slice"};

/// Everything that is read takes part once.
constexpr std::array<std::string_view, 5> kReducers = {"ArgMax", "ArgMin", "GlobalAveragePool",
                                                       "GlobalMaxPool", "GlobalLpPool"};

bool is_among(std::span<const std::string_view> names, std::string_view op) {
  return std::ranges::find(names, op) != names.end();
}

const Type* type_at(const Graph& graph, const std::vector<ValueId>& ids, std::size_t place) {
  if (place >= ids.size() || ids[place] == ValueId::kNone) return nullptr;
  return &graph.value(ids[place]).type;
}

double bytes_of(const Graph& graph, ValueId id) {
  return static_cast<double>(graph.value(id).type.max_bytes().value_or(0));
}

/// At their bound; 0 where something is unbounded.
double elements_of(const Type* type) {
  if (type == nullptr || type->kind != Type::Kind::kTensor || !type->ranked) return 0;
  double count = 1;
  for (const auto& dim : type->dims) {
    count *= static_cast<double>(std::max<std::int64_t>(dim.fixed() ? dim.size : dim.bound, 0));
  }
  return count;
}

double window_of(const graph::Node& node) {
  double places = 1;
  for (const auto size : node.ints_or("kernel_shape", {})) places *= static_cast<double>(size);
  return places;
}

}  // namespace

bool only_moves(const graph::Node& node) {
  return node.domain.empty() && is_among(kMovers, node.op);
}

namespace {

double flops_of(const Graph& graph, NodeId id, double macs) {
  const auto& node = graph.node(id);
  if (macs > 0) return 2 * macs;
  if (only_moves(node)) return 0;
  if (node.op.starts_with("Reduce") || is_among(kReducers, node.op)) {
    return elements_of(type_at(graph, node.inputs, 0));
  }
  const double written = elements_of(type_at(graph, node.outputs, 0));
  const bool pools = node.op == "MaxPool" || node.op == "AveragePool" || node.op == "LpPool";
  return pools ? written * window_of(node) : written;
}

/// Whether the numbers that it computes with are fp32.
bool is_fp32(const Graph& graph, const graph::Node& node) {
  const auto* first = type_at(graph, node.inputs, 0);
  if (first == nullptr) first = type_at(graph, node.outputs, 0);
  return first != nullptr && first->dtype == DType::kF32;
}

/// Of an input that comes from outside.
double read_bytes(const Graph& graph, const graph::Node& node, std::size_t place) {
  const double bytes = bytes_of(graph, node.inputs[place]);
  const bool picks = place == 0 && node.domain.empty() && is_among(kPickers, node.op);
  if (!picks || node.outputs.empty() || node.outputs[0] == ValueId::kNone) return bytes;
  return std::min(bytes, bytes_of(graph, node.outputs[0]));
}

/// A part with its border.
class Bordered {
 public:
  Bordered(const Graph& graph, std::span<const NodeId> nodes, int frames)
      : graph_(&graph), nodes_(nodes.begin(), nodes.end()), frames_(frames) {}

  Work count(NodeId id) {
    const auto& node = graph_->node(id);
    Work work;
    const auto macs = graph::known_macs_of(*graph_, id);
    if (!macs) ++work.uncounted;
    const double flops = macs ? flops_of(*graph_, id, static_cast<double>(*macs)) : 0;
    (is_fp32(*graph_, node) ? work.flops : work.other_flops) = flops;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != ValueId::kNone)
        read(work, node.inputs[i], read_bytes(*graph_, node, i));
    }
    for (const auto id_read : node.captures) read(work, id_read, bytes_of(*graph_, id_read));
    for (const auto made : node.outputs) {
      if (made == ValueId::kNone || !is_needed_outside(made)) continue;
      work.bytes += bytes_of(*graph_, made);
      once_ += bytes_of(*graph_, made);
    }
    return work;
  }

  /// Of all that was counted, each value once.
  [[nodiscard]] double bytes() const { return once_; }

 private:
  void read(Work& work, ValueId id, double bytes) {
    const auto& producer = graph_->value(id).producer;
    if (producer && nodes_.contains(*producer)) return;
    if (graph_->value(id).constant) bytes /= frames_;
    work.bytes += bytes;
    if (read_.insert(id).second) once_ += bytes;
  }
  [[nodiscard]] bool is_needed_outside(ValueId id) const {
    const auto& value = graph_->value(id);
    return value.is_output || std::ranges::any_of(value.consumers, [this](NodeId reader) {
             return !nodes_.contains(reader);
           });
  }

  const Graph* graph_;
  std::set<NodeId> nodes_;
  int frames_;
  std::set<ValueId> read_;
  double once_ = 0;
};

}  // namespace

Work& Work::operator+=(const Work& other) {
  flops += other.flops;
  other_flops += other.other_flops;
  bytes += other.bytes;
  uncounted += other.uncounted;
  return *this;
}

PartWork work_of(const Graph& graph, std::span<const NodeId> nodes, int frames) {
  Bordered part(graph, nodes, frames);
  PartWork work;
  for (const auto id : nodes) work.all += work.nodes.emplace_back(part.count(id));
  work.all.bytes = part.bytes();
  return work;
}

Limit limit_of(const Work& work, double flops_per_second, double bytes_per_second) {
  const double computing = work.flops / flops_per_second;
  const double moving = work.bytes / bytes_per_second;
  return {std::max(computing, moving), moving > computing};
}

}  // namespace penstock::cost
