// Follows the numbers that are rounded from node to node, and puts a Mul behind each.
#include "penstock/graph/noise.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/free_name.h"
#include "penstock/tensor/number.h"
#include "penstock/tensor/random.h"

namespace penstock::graph {
namespace {

/// What an engine may add in any order, and rounds whatever it reads,
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
/// what it may add in any order, of whole numbers exactly,
constexpr std::string_view kAdds[] = {"ReduceSum", "ReduceMean",      "ReduceL1",
                                      "ReduceL2",  "ReduceSumSquare", "ReduceLogSumExp",
                                      "CumSum",    "AveragePool",     "GlobalAveragePool"};
/// and what else rounds numbers that are rounded: of others it may count.
constexpr std::string_view kRounds[] = {
    "Add",       "Sub",     "Mul",       "Div",    "Sum",        "Mean",
    "Sqrt",      "Exp",     "Log",       "Pow",    "Reciprocal", "Sin",
    "Cos",       "Sigmoid", "Tanh",      "Erf",    "Gelu",       "Softplus",
    "Elu",       "Selu",    "Celu",      "Mish",   "Swish",      "HardSigmoid",
    "HardSwish", "PRelu",   "LeakyRelu", "Resize", "GridSample", "RoiAlign"};
constexpr std::string_view kCarries[] = {
    "Reshape",      "Transpose",    "Squeeze",       "Unsqueeze", "Flatten",   "Identity", "Concat",
    "Slice",        "Split",        "Gather",        "Expand",    "Tile",      "Pad",      "Clip",
    "DepthToSpace", "SpaceToDepth", "Relu",          "MaxPool",   "Neg",       "Abs",      "Max",
    "Min",          "Where",        "GlobalMaxPool", "Dropout",   "ReduceMax", "ReduceMin"};
/// Whole numbers, as floats.
constexpr std::string_view kCounts[] = {"Floor", "Ceil", "Round", "Sign"};
/// 1 - p is not below 0 in any engine.
constexpr std::string_view kAtMostOne[] = {"Softmax", "Sigmoid", "HardSigmoid", "Tanh", "Erf"};
constexpr std::int64_t kLeastOpset = 7;  ///< From which on Mul takes one size for another.

template <typename Names>
bool is_any(const Node& node, const Names& names) {
  return node.domain.empty() && std::ranges::find(names, node.op) != std::end(names);
}

bool computes_in_steps(const Node& node) {
  return node.op.find("Quantize") != std::string::npos || node.op.starts_with("QLinear") ||
         node.op.ends_with("Integer");
}

/// As many factors as the last axis of what `node` makes has elements.
Tensor factors(const Node& node, DType type, std::int64_t size, Random& coins) {
  const bool half = type == DType::kF16;
  const double larger = is_any(node, kAtMostOne) ? 1 : 1 + (half ? 0x1p-10 : 0x1p-23);
  const double smaller = 1 - (half ? 0x1p-11 : 0x1p-23);
  auto all = Tensor::allocate(type, {size});
  for (std::size_t i = 0; i < all.count(); ++i) {
    const double factor = coins.below(2) == 1 ? larger : smaller;
    store_bits(type, all.data(), i, bits_from_number(type, factor));
  }
  return all;
}

class Noise {
 public:
  Noise(Graph& graph, std::uint64_t seed, DType type)
      : graph_(graph),
        coins_(seed),
        type_(type),
        real_(graph.values.size()),
        rounded_(graph.values.size()) {
    for (const auto& value : graph.values) names_.insert(value.name);
  }

  std::size_t add() {
    for (const auto id : graph_.inputs) real_[index(id)] = may_be_real(id);
    auto nodes = std::exchange(graph_.nodes, {});
    for (auto& node : nodes) {
      const bool sums = is_any(node, kSums), adds = is_any(node, kAdds);
      if (sums || adds) change_inputs(node);
      const bool reads_real = reads(node, real_), reads_rounded = reads(node, rounded_);
      const bool rounds = sums || (reads_rounded && (adds || is_any(node, kRounds)));
      const bool carries = reads_rounded && is_any(node, kCarries);
      const bool counts = is_any(node, kCounts);
      graph_.nodes.push_back(std::move(node));
      const auto maker = graph_.nodes.size() - 1;
      for (std::size_t i = 0; i < graph_.nodes[maker].outputs.size(); ++i) {
        const auto id = graph_.nodes[maker].outputs[i];
        if (id == ValueId::kNone || !may_be_real(id)) continue;
        real_[index(id)] = reads_real && !counts;
        if (!has_type(id)) continue;
        rounded_[index(id)] = rounds || carries;
        if (rounds) multiply(maker, i);
      }
    }
    graph_.pipeline_stages.assign(graph_.nodes.size(), -1);
    link(graph_);
    return added_;
  }

 private:
  [[nodiscard]] bool has_type(ValueId id) const { return graph_.value(id).type.dtype == type_; }
  /// What is f16 may come of f32.
  [[nodiscard]] bool may_be_real(ValueId id) const {
    return has_type(id) || (type_ == DType::kF16 && graph_.value(id).type.dtype == DType::kF32);
  }
  static bool reads(const Node& node, const std::vector<bool>& marked) {
    return std::ranges::any_of(
        node.inputs, [&](ValueId id) { return id != ValueId::kNone && marked[index(id)]; });
  }

  /// What rounds while it adds gives what others would of numbers that differ in the last bit.
  /// Where these nearly cancel, its result differs by more than a last bit of its own.
  void change_inputs(Node& node) {
    for (auto& id : node.inputs) {
      if (id == ValueId::kNone || !has_type(id)) continue;
      if (!real_[index(id)] || rounded_[index(id)]) continue;
      const auto known = changed_.find(id);
      if (known != changed_.end()) {
        id = known->second;
        continue;
      }
      const Value value = graph_.value(id);
      if (value.type.dims.empty() || value.type.dims.back().size < 1) continue;
      const auto made = add_value({.name = concat(value.name, "/changed"), .type = value.type});
      real_[index(made)] = rounded_[index(made)] = true;
      push_product(concat(value.name, "/changed"), id,
                   factors({}, type_, value.type.dims.back().size, coins_), made);
      changed_.emplace(std::exchange(id, made), made);
    }
  }

  /// The value keeps its name and readers behind a Mul; what the node makes has a new one.
  void multiply(std::size_t maker, std::size_t output) {
    const auto id = graph_.nodes[maker].outputs[output];
    const Value& value = graph_.value(id);
    const auto& dims = value.type.dims;
    if (value.consumers.empty() || dims.empty() || dims.back().size < 1) return;
    Value exact{.name = concat(value.name, "/rounded"), .type = value.type};
    auto factor = factors(graph_.nodes[maker], type_, dims.back().size, coins_);
    const auto name = value.name;
    const auto made = add_value(std::move(exact));
    graph_.nodes[maker].outputs[output] = made;
    push_product(name, made, std::move(factor), id);
  }

  void push_product(const std::string& name, ValueId of, Tensor factor, ValueId made) {
    Value factor_value{.name = concat(name, "/noise"), .type = factor.type()};
    factor_value.constant = std::move(factor);
    Node product{.name = concat(name, "/noise"), .op = "Mul"};
    product.inputs = {of, add_value(std::move(factor_value))};
    product.outputs = {made};
    graph_.nodes.push_back(std::move(product));
    ++added_;
  }

  ValueId add_value(Value value) {
    value.name =
        free_name(value.name, [this](const auto& name) { return names_.insert(name).second; });
    graph_.values.push_back(std::move(value));
    real_.push_back(false);
    rounded_.push_back(false);
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  Graph& graph_;
  Random coins_;
  const DType type_;
  std::vector<bool> real_;     ///< By value: computed of the network's float inputs, and no count.
  std::vector<bool> rounded_;  ///< By value: of those, what engines compute differently.
  std::map<ValueId, ValueId> changed_;     ///< By value: itself with other last bits.
  std::unordered_set<std::string> names_;  ///< Of all values.
  std::size_t added_ = 0;
};

}  // namespace

std::size_t add_rounding_noise(Graph& graph, std::uint64_t seed, DType type) {
  const auto opset = graph.info.opsets.find("");
  if (opset == graph.info.opsets.end() || opset->second < kLeastOpset) return 0;
  if (std::ranges::any_of(graph.nodes, computes_in_steps)) return 0;
  return Noise(graph, seed, type).add();
}

}  // namespace penstock::graph
