// Follows the numbers that are rounded from node to node, and puts a Mul behind each.
#include "penstock/graph/noise.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/graph/draft.h"
#include "penstock/tensor/random.h"

namespace penstock::graph {
namespace {

/// What an engine may add in any order, whatever it reads,
constexpr std::string_view kSums[] = {"Conv",
                                      "ConvTranspose",
                                      "Gemm",
                                      "MatMul",
                                      "Einsum",
                                      "LSTM",
                                      "GRU",
                                      "RNN",
                                      "Attention",
                                      "BatchNormalization",
                                      "InstanceNormalization",
                                      "GroupNormalization",
                                      "LayerNormalization",
                                      "RMSNormalization",
                                      "LpNormalization",
                                      "MeanVarianceNormalization",
                                      "LRN",
                                      "Softmax",
                                      "LogSoftmax"};
/// and what rounds numbers that are rounded: of others it may count.
constexpr std::string_view kRounds[] = {"Add",
                                        "Sub",
                                        "Mul",
                                        "Div",
                                        "Sum",
                                        "Mean",
                                        "Sqrt",
                                        "Exp",
                                        "Log",
                                        "Pow",
                                        "Reciprocal",
                                        "Sin",
                                        "Cos",
                                        "Sigmoid",
                                        "Tanh",
                                        "Erf",
                                        "Gelu",
                                        "Softplus",
                                        "Elu",
                                        "Selu",
                                        "Celu",
                                        "Mish",
                                        "Swish",
                                        "HardSigmoid",
                                        "HardSwish",
                                        "PRelu",
                                        "LeakyRelu",
                                        "ReduceSum",
                                        "ReduceMean",
                                        "ReduceL1",
                                        "ReduceL2",
                                        "Resize",
                                        "GridSample",
                                        "RoiAlign",
                                        "AveragePool",
                                        "GlobalAveragePool",
                                        "ReduceSumSquare",
                                        "ReduceLogSumExp"};
constexpr std::string_view kCarries[] = {
    "Reshape",      "Transpose",    "Squeeze",       "Unsqueeze", "Flatten",   "Identity", "Concat",
    "Slice",        "Split",        "Gather",        "Expand",    "Tile",      "Pad",      "Clip",
    "DepthToSpace", "SpaceToDepth", "Relu",          "MaxPool",   "Neg",       "Abs",      "Max",
    "Min",          "Where",        "GlobalMaxPool", "Dropout",   "ReduceMax", "ReduceMin"};
/// 1 - p is not below 0 in any engine.
constexpr std::string_view kAtMostOne[] = {"Softmax", "Sigmoid", "HardSigmoid", "Tanh", "Erf"};
constexpr std::int64_t kLeastOpset = 7;  ///< From which on Mul takes one size for another.
constexpr float kLarger = 1 + 0x1p-23F, kSmaller = 1 - 0x1p-23F;

template <typename Names>
bool is_any(const Node& node, const Names& names) {
  return node.domain.empty() && std::ranges::find(names, node.op) != std::end(names);
}

bool computes_in_steps(const Node& node) {
  return node.op.find("Quantize") != std::string::npos || node.op.starts_with("QLinear") ||
         node.op.ends_with("Integer");
}

/// As many factors as the last axis of what `node` makes has elements.
Tensor factors(const Node& node, std::int64_t size, Random& coins) {
  auto all = Tensor::allocate(DType::kF32, {size});
  for (auto& factor : all.as<float>()) {
    const bool larger = coins.below(2) == 1;
    factor = !larger ? kSmaller : is_any(node, kAtMostOne) ? 1 : kLarger;
  }
  return all;
}

class Noise {
 public:
  Noise(Graph& graph, std::uint64_t seed)
      : graph_(graph), coins_(seed), rounded_(graph.values.size()) {}

  std::size_t add() {
    auto nodes = std::exchange(graph_.nodes, {});
    for (auto& node : nodes) {
      const bool reads_rounded = std::ranges::any_of(
          node.inputs, [&](ValueId id) { return id != ValueId::kNone && rounded_[index(id)]; });
      const bool rounds = is_any(node, kSums) || (reads_rounded && is_any(node, kRounds));
      graph_.nodes.push_back(std::move(node));
      if (!rounds && !(reads_rounded && is_any(graph_.nodes.back(), kCarries))) continue;
      const auto maker = graph_.nodes.size() - 1;
      for (std::size_t i = 0; i < graph_.nodes[maker].outputs.size(); ++i) {
        const auto id = graph_.nodes[maker].outputs[i];
        if (id == ValueId::kNone || graph_.value(id).type.dtype != DType::kF32) continue;
        rounded_[index(id)] = true;
        if (rounds) multiply(maker, i);
      }
    }
    graph_.pipeline_stages.assign(graph_.nodes.size(), -1);
    link(graph_);
    return added_;
  }

 private:
  /// The value keeps its name and readers behind a Mul; what the node makes has a new one.
  void multiply(std::size_t maker, std::size_t output) {
    const auto id = graph_.nodes[maker].outputs[output];
    const Value& value = graph_.value(id);
    const auto& dims = value.type.dims;
    if (value.consumers.empty() || dims.empty() || dims.back().size < 1) return;
    Value exact{.name = concat(value.name, "/rounded"), .type = value.type};
    auto factor = factors(graph_.nodes[maker], dims.back().size, coins_);
    Value factor_value{.name = concat(value.name, "/noise"), .type = factor.type()};
    factor_value.constant = std::move(factor);
    Node product{.name = concat(value.name, "/noise"), .op = "Mul"};
    const auto made = add_value(std::move(exact));
    product.inputs = {made, add_value(std::move(factor_value))};
    product.outputs = {id};
    graph_.nodes[maker].outputs[output] = made;
    graph_.nodes.push_back(std::move(product));
    ++added_;
  }

  ValueId add_value(Value value) {
    graph_.values.push_back(std::move(value));
    rounded_.push_back(false);
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  Graph& graph_;
  Random coins_;
  std::vector<bool> rounded_;  ///< By value.
  std::size_t added_ = 0;
};

}  // namespace

std::size_t add_rounding_noise(Graph& graph, std::uint64_t seed) {
  const auto opset = graph.info.opsets.find("");
  if (opset == graph.info.opsets.end() || opset->second < kLeastOpset) return 0;
  if (std::ranges::any_of(graph.nodes, computes_in_steps)) return 0;
  return Noise(graph, seed).add();
}

}  // namespace penstock::graph
