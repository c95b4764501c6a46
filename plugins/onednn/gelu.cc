#include "gelu.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "pointwise.h"

namespace penstock::onednn {
namespace {

/// The factor of a node that only scales `value`.
std::optional<float> factor_of(const Builder& builder, NodeId id, ValueId value) {
  const auto unary = unary_of(builder, builder.graph().node(id));
  if (!unary || unary->input != value || unary->ops.size() != 1) return {};
  const PostOp& op = unary->ops.front();
  if (op.algorithm != dnnl_eltwise_linear || op.beta != 0) return {};
  return op.alpha;
}

/// 1 + f(x) of `value`, the better half of a GELU, and what scales that.
struct GeluHalf {
  ValueId result = ValueId::kNone;
  float factor = 1;
  std::vector<NodeId> nodes;
};

bool is_near(float found, float expected) {
  return std::abs(found / expected - 1) < 1e-5F;
}

/// The node that adds one to the function that `node` is.
std::optional<GeluHalf> plus_one(const Builder& builder, std::vector<NodeId> nodes) {
  const Graph& graph = builder.graph();
  const ValueId bare = graph.node(nodes.back()).outputs.front();
  const auto sum = builder.only_reader(bare);
  const auto one = sum ? unary_of(builder, graph.node(*sum)) : std::nullopt;
  const bool adds_one = one && one->input == bare && one->ops.size() == 1 &&
                        one->ops[0].algorithm == dnnl_eltwise_linear && one->ops[0].alpha == 1 &&
                        one->ops[0].beta == 1;
  if (!adds_one) return {};
  nodes.push_back(*sum);
  return GeluHalf{graph.node(*sum).outputs.front(), 1, std::move(nodes)};
}

/// 1 + erf(x / sqrt(2)), from `first` on.
std::optional<GeluHalf> erf_half(const Builder& builder, ValueId value, NodeId first) {
  const Graph& graph = builder.graph();
  const auto scale = factor_of(builder, first, value);
  if (!scale || !is_near(*scale, 1 / std::numbers::sqrt2_v<float>)) return {};
  const auto erf = builder.only_reader(graph.node(first).outputs.front());
  if (!erf || graph.node(*erf).op != "Erf" || !graph.node(*erf).domain.empty()) return {};
  return plus_one(builder, {first, *erf});
}

/// 1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)), from the cube on; `sum` reads `value` too.
std::optional<GeluHalf> tanh_half(const Builder& builder, ValueId value, NodeId cube, NodeId sum) {
  const Graph& graph = builder.graph();
  const auto result = [&](NodeId id) { return graph.node(id).outputs.front(); };
  const auto power = unary_of(builder, graph.node(cube));
  const bool cubes = power && power->input == value &&
                     power->ops.front().algorithm == dnnl_eltwise_pow &&
                     power->ops.front().alpha == 1 && power->ops.front().beta == 3;
  if (!cubes) return {};
  const auto scaled = builder.only_reader(result(cube));
  const auto small = scaled ? factor_of(builder, *scaled, result(cube)) : std::nullopt;
  if (!small || !is_near(*small, 0.044715F)) return {};
  if (builder.only_reader(result(*scaled)) != sum || graph.node(sum).op != "Add") return {};
  const auto outer = builder.only_reader(result(sum));
  const auto scale = outer ? factor_of(builder, *outer, result(sum)) : std::nullopt;
  const float root = std::numbers::sqrt2_v<float> * std::numbers::inv_sqrtpi_v<float>;
  if (!scale || !is_near(*scale, root)) return {};
  const auto tanh = builder.only_reader(result(*outer));
  if (!tanh || graph.node(*tanh).op != "Tanh" || !graph.node(*tanh).domain.empty()) return {};
  return plus_one(builder, {cube, *scaled, sum, *outer, *tanh});
}

/// x / 2 (1 + f(x)), with the half anywhere: a GELU as converters write it. `other`: the reader of
/// `value` that is no node of the half's.
std::optional<Link> finish_gelu(const Builder& builder, ValueId value, std::optional<GeluHalf> half,
                                NodeId other, dnnl_alg_kind_t algorithm) {
  if (!half) return {};
  const Graph& graph = builder.graph();
  const auto scaled = [&](ValueId& at, NodeId next) {
    const auto factor = factor_of(builder, next, at);
    if (!factor) return false;
    half->factor *= *factor;
    half->nodes.push_back(next);
    at = graph.node(next).outputs.front();
    return true;
  };
  auto reader = builder.only_reader(half->result);
  if (reader && scaled(half->result, *reader)) reader = builder.only_reader(half->result);
  ValueId x = value;
  const bool apart = reader != other && scaled(x, other);
  const auto product = apart ? builder.only_reader(x) : std::optional(other);
  if (!reader || reader != product) return {};
  const Node& mul = graph.node(*product);
  if (mul.op != "Mul" || !mul.domain.empty() || std::ranges::count(mul.inputs, x) != 1) return {};
  half->nodes.push_back(*product);
  ValueId result = mul.outputs.front();
  if (const auto last = builder.only_reader(result); last && half->factor == 1) {
    scaled(result, *last);
  }
  Link link{.ops = {eltwise(algorithm)}, .nodes = half->nodes, .result = result};
  if (half->factor != 0.5F) link.ops.push_back(eltwise(dnnl_eltwise_linear, 2 * half->factor, 0));
  return link;
}

}  // namespace

std::optional<Link> gelu_by_erf(const Builder& builder, ValueId value, NodeId first, NodeId other) {
  return finish_gelu(builder, value, erf_half(builder, value, first), other, dnnl_eltwise_gelu_erf);
}

std::optional<Link> gelu_by_tanh(const Builder& builder, ValueId value,
                                 std::vector<NodeId> readers) {
  std::ranges::sort(readers);
  do {
    auto half = tanh_half(builder, value, readers[0], readers[1]);
    if (auto link =
            finish_gelu(builder, value, std::move(half), readers[2], dnnl_eltwise_gelu_tanh)) {
      return link;
    }
  } while (std::ranges::next_permutation(readers).found);
  return {};
}

}  // namespace penstock::onednn
