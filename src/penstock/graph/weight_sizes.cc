// Lets inference carry the symbols of inputs to the operators, and reads there what must be equal.
#include "penstock/graph/weight_sizes.h"

#include <cstddef>
#include <functional>
#include <string_view>
#include <unordered_map>

#include "penstock/graph/inference.h"

namespace penstock::graph {
namespace {

/// Of one input of a node; an axis below 0 counts from the end.
struct AxisOf {
  std::size_t input;
  int axis;
};

/// One node, and what its operator tells of the sizes of its inputs.
class WeightSite {
 public:
  WeightSite(const Graph& graph, const Node& node, SizesOfSymbols& sizes)
      : graph_(graph), node_(node), sizes_(sizes) {}

  [[nodiscard]] bool is_set(std::string_view attribute) const {
    return node_.int_or(attribute, 0) != 0;
  }
  [[nodiscard]] std::int64_t number(std::string_view attribute, std::int64_t otherwise) const {
    return node_.int_or(attribute, otherwise);
  }
  [[nodiscard]] std::size_t rank(std::size_t input) const {
    const auto* type = type_of(input);
    return type == nullptr ? 0 : type->dims.size();
  }

  /// `a` is `times` as long as `b`.
  void equal(AxisOf a, AxisOf b, std::int64_t times = 1) {
    const auto* left = dim_of(a);
    const auto* right = dim_of(b);
    if (left == nullptr || right == nullptr) return;
    std::int64_t size = 0;
    if (right->fixed() && !__builtin_mul_overflow(right->size, times, &size)) tell(*left, size);
    if (left->fixed() && times == 1) tell(*right, left->size);
  }
  void is(AxisOf a, std::int64_t size) {
    if (const auto* dim = dim_of(a)) tell(*dim, size);
  }
  /// The last axes of `a` are those of `b`, but where `b` has one element for all.
  void ends_alike(std::size_t a, std::size_t b) {
    const auto* right = type_of(b);
    if (right == nullptr) return;
    for (int axis = -1; axis >= -static_cast<int>(right->dims.size()); --axis) {
      const auto* dim = dim_of({b, axis});
      if (dim->fixed() && dim->size > 1) equal({a, axis}, {b, axis});
    }
  }

 private:
  [[nodiscard]] const Type* type_of(std::size_t input) const {
    if (input >= node_.inputs.size() || node_.inputs[input] == ValueId::kNone) return nullptr;
    const auto& type = graph_.value(node_.inputs[input]).type;
    return type.kind == Type::Kind::kTensor && type.ranked ? &type : nullptr;
  }
  [[nodiscard]] const Dim* dim_of(AxisOf place) const {
    const auto* type = type_of(place.input);
    if (type == nullptr) return nullptr;
    const auto rank = static_cast<int>(type->dims.size());
    const int axis = place.axis < 0 ? place.axis + rank : place.axis;
    return axis >= 0 && axis < rank ? &type->dims[static_cast<std::size_t>(axis)] : nullptr;
  }
  void tell(const Dim& dim, std::int64_t size) {
    if (!dim.fixed() && !dim.symbol.empty() && size > 0) sizes_.emplace(dim.symbol, size);
  }

  const Graph& graph_;
  const Node& node_;
  SizesOfSymbols& sizes_;
};

using WeightRule = std::function<void(WeightSite&)>;

/// Of matrices, the right one input `b`. A vector has one axis.
WeightRule multiplies(std::size_t b) {
  return [b](WeightSite& site) {
    const bool columns = site.rank(0) > 1 && site.is_set("transA");
    const bool rows = site.rank(b) > 1 && !site.is_set("transB");
    site.equal({0, columns ? -2 : -1}, {b, rows ? -2 : -1});
  };
}

void multiplies_packed(WeightSite& site) {
  site.is({0, -1}, site.number("K", 0));
}

/// The weights are input `w`.
WeightRule convolves(std::size_t w) {
  return [w](WeightSite& site) { site.equal({0, 1}, {w, 1}, site.number("group", 1)); };
}

void convolves_back(WeightSite& site) {
  site.equal({0, 1}, {1, 0});
}

void remembers(WeightSite& site) {
  constexpr std::size_t kW = 1, kR = 2, kHidden = 5, kCell = 6;
  const int directions = site.is_set("layout") ? 1 : 0;
  site.equal({0, 2}, {kW, 2});
  for (const auto state : {kHidden, kCell}) {
    site.equal({state, 2}, {kR, 2});
    site.equal({state, directions}, {kW, 0});
    site.equal({state, 1 - directions}, {0, 1 - directions});
  }
}

void normalises_channels(WeightSite& site) {
  site.equal({0, 1}, {1, 0});
}

void scales_last_axes(WeightSite& site) {
  site.ends_alike(0, 1);
}

/// By operator, whatever its domain.
const std::unordered_map<std::string_view, WeightRule>& weight_rules() {
  static const std::unordered_map<std::string_view, WeightRule> kRules = {
      {"MatMul", multiplies(1)},
      {"MatMulInteger", multiplies(1)},
      {"MatMulIntegerToFloat", multiplies(1)},
      {"DynamicQuantizeMatMul", multiplies(1)},
      {"FusedMatMul", multiplies(1)},
      {"QLinearMatMul", multiplies(3)},
      {"Gemm", multiplies(1)},
      {"FusedGemm", multiplies(1)},
      {"QGemm", multiplies(3)},
      {"MatMulNBits", multiplies_packed},
      {"Conv", convolves(1)},
      {"FusedConv", convolves(1)},
      {"ConvInteger", convolves(1)},
      {"DeformConv", convolves(1)},
      {"QLinearConv", convolves(3)},
      {"ConvTranspose", convolves_back},
      {"LSTM", remembers},
      {"GRU", remembers},
      {"RNN", remembers},
      {"BatchNormalization", normalises_channels},
      {"InstanceNormalization", normalises_channels},
      {"LayerNormalization", scales_last_axes},
      {"SimplifiedLayerNormalization", scales_last_axes},
      {"RMSNormalization", scales_last_axes},
      {"PRelu", scales_last_axes},
  };
  return kRules;
}

/// The types behind the inputs with no symbols but those that inference carries there.
Graph traced(const Graph& graph) {
  Graph open = graph;
  for (auto& value : open.values) {
    if (!value.producer) continue;
    for (auto& dim : value.type.dims) dim.symbol.clear();
  }
  infer_types(open, Source::kFile);
  return open;
}

}  // namespace

SizesOfSymbols sizes_of_weights(const Graph& graph) {
  const Graph open = traced(graph);
  SizesOfSymbols told, sizes;
  for (const auto& node : open.nodes) {
    const auto rule = weight_rules().find(node.op);
    if (rule == weight_rules().end()) continue;
    WeightSite site(open, node, told);
    rule->second(site);
  }
  for (const auto id : graph.inputs) {
    for (const auto& dim : graph.value(id).type.dims) {
      const auto size = dim.fixed() || dim.bound != Dim::kOpen ? told.end() : told.find(dim.symbol);
      if (size != told.end()) sizes.insert(*size);
    }
  }
  return sizes;
}

}  // namespace penstock::graph
