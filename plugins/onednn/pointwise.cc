#include "pointwise.h"

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "fusion.h"
#include "operators.h"

namespace penstock::onednn {
namespace {

/// Operators without parameters.
constexpr std::pair<std::string_view, PostOp (*)()> kFunctions[] = {
    {"Abs", [] { return eltwise(dnnl_eltwise_abs); }},
    {"Exp", [] { return eltwise(dnnl_eltwise_exp); }},
    {"HardSwish", [] { return eltwise(dnnl_eltwise_hardswish, 1.0F / 6, 0.5F); }},
    {"Log", [] { return eltwise(dnnl_eltwise_log); }},
    {"Mish", [] { return eltwise(dnnl_eltwise_mish); }},
    {"Neg", [] { return eltwise(dnnl_eltwise_linear, -1, 0); }},
    {"Reciprocal", [] { return eltwise(dnnl_eltwise_pow, 1, -1); }},
    {"Relu", [] { return eltwise(dnnl_eltwise_relu); }},
    {"Round", [] { return eltwise(dnnl_eltwise_round); }},
    {"Sigmoid", [] { return eltwise(dnnl_eltwise_logistic); }},
    {"Softplus", [] { return eltwise(dnnl_eltwise_soft_relu, 1); }},
    {"Sqrt", [] { return eltwise(dnnl_eltwise_sqrt); }},
    {"Tanh", [] { return eltwise(dnnl_eltwise_tanh); }},
};

/// Elu, LeakyRelu, HardSigmoid, Gelu: by their attributes.
std::optional<PostOp> with_attributes(const Node& node) {
  if (node.op == "Elu") return eltwise(dnnl_eltwise_elu, float_or(node, "alpha", 1));
  if (node.op == "LeakyRelu") return eltwise(dnnl_eltwise_relu, float_or(node, "alpha", 0.01F));
  if (node.op == "HardSigmoid") {
    return eltwise(dnnl_eltwise_hardsigmoid, float_or(node, "alpha", 0.2F),
                   float_or(node, "beta", 0.5F));
  }
  if (node.op == "Gelu") {
    return eltwise(string_or(node, "approximate", "none") == "tanh" ? dnnl_eltwise_gelu_tanh
                                                                    : dnnl_eltwise_gelu_erf);
  }
  return {};
}

/// Its bounds were attributes before opset 11.
std::optional<PostOp> clip(const Builder& builder, const Node& node) {
  std::array bounds = {float_or(node, "min", -kInfinity), float_or(node, "max", kInfinity)};
  for (std::size_t i = 1; i < node.inputs.size() && i <= bounds.size(); ++i) {
    if (node.inputs[i] == ValueId::kNone) continue;
    const auto bound = builder.scalar(node.inputs[i]);
    if (!bound) return {};
    bounds[i - 1] = *bound;
  }
  // Where the bounds cross, the upper one wins.
  return eltwise(dnnl_eltwise_clip, std::min(bounds[0], bounds[1]), bounds[1]);
}

PostOp power(float exponent) {
  if (exponent == 2.0F) return eltwise(dnnl_eltwise_square);
  if (exponent == 0.5F) return eltwise(dnnl_eltwise_sqrt);
  if (exponent == 1.0F) return eltwise(dnnl_eltwise_linear, 1, 0);
  return eltwise(dnnl_eltwise_pow, 1, exponent);
}

/// x OP c, or c OP x where the scalar comes first.
std::optional<PostOp> with_scalar(std::string_view op, float c, bool scalar_first) {
  if (op == "Add") return eltwise(dnnl_eltwise_linear, 1, c);
  if (op == "Mul") return eltwise(dnnl_eltwise_linear, c, 0);
  if (op == "Sub") {
    return scalar_first ? eltwise(dnnl_eltwise_linear, -1, c) : eltwise(dnnl_eltwise_linear, 1, -c);
  }
  if (op == "Div") {
    return scalar_first ? eltwise(dnnl_eltwise_pow, c, -1) : eltwise(dnnl_eltwise_linear, 1 / c, 0);
  }
  if (op == "Max") return eltwise(dnnl_eltwise_clip, c, kInfinity);
  if (op == "Min") return eltwise(dnnl_eltwise_clip, -kInfinity, c);
  if (op == "Pow" && !scalar_first) return power(c);
  return {};
}

/// The numpy shape: ones in front.
Dims aligned(Dims dims, std::size_t rank) {
  if (dims.size() < rank) dims.insert(dims.begin(), rank - dims.size(), 1);
  return dims;
}

/// Two operands as oneDNN's binary takes them.
struct Pair {
  Place a, b;
};

/// The second operand's layout that is as good as the first one's: the smaller one in the order of
/// the larger.
Result<Layout> layout_like(const Place& a, const Place& b) {
  if (a.layout.dims() == b.layout.dims()) return a.layout;
  if (!a.layout.is_strided()) return b.layout;
  return a.layout.dense_like(b.layout.dims());
}

Result<Pair> alike(Builder& builder, const Place& a, const Place& b) {
  PENSTOCK_TRY(const auto layout, layout_like(a, b));
  PENSTOCK_TRY(Place moved, builder.reordered(b, layout));
  moved.layout = layout;
  return Pair{a, std::move(moved)};
}

Result<Descriptor> describe_binary(Builder& builder, dnnl_alg_kind_t algorithm, const Pair& pair,
                                   const Layout& target, const_dnnl_primitive_attr_t attributes) {
  return builder.describe([&](dnnl_primitive_desc_t* raw) {
    return builder.api().binary_primitive_desc_create(raw, builder.engine().cpu, algorithm,
                                                      pair.a.layout.get(), pair.b.layout.get(),
                                                      target.get(), attributes);
  });
}

/// The operands in layouts that the library has more than reference code for.
Result<Pair> arrange(Builder& builder, dnnl_alg_kind_t algorithm, const Place& a, const Place& b,
                     const Layout& target) {
  PENSTOCK_TRY(Pair pair, alike(builder, a, b));
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(auto descriptor,
               describe_binary(builder, algorithm, pair, target, attributes.get()));
  if (!is_reference(builder, descriptor) || a.layout.is_strided()) return pair;
  PENSTOCK_TRY(const auto layout, a.layout.dense_like(a.layout.dims()));
  PENSTOCK_TRY(const Place moved, builder.reordered(a, layout));
  return alike(builder, moved, b);
}

/// Whether the library has but general code for two operands that a loop of ours can read.
Result<bool> is_slow(Builder& builder, dnnl_alg_kind_t algorithm, const Place& a, const Place& b,
                     const Layout& target) {
  if (!a.layout.is_strided() || !b.layout.is_strided()) return false;
  PENSTOCK_TRY(const auto layout, layout_like(a, b));
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto descriptor,
               describe_binary(builder, algorithm, {a, {b.buffer, b.offset, layout}}, target,
                               attributes.get()));
  return is_reference(builder, descriptor);
}

/// y = a OP b, each of which may have ones where y has more.
Status append_binary(Builder& builder, NodeId id, dnnl_alg_kind_t algorithm, const Place& first,
                     const Place& second, std::vector<Link> chain, ValueId result, bool reuse_first,
                     std::size_t required = 0) {
  const Dims dims = at_least_1d(builder.dims(result));
  PENSTOCK_TRY(Place a, builder.reshaped(first, aligned(first.layout.dims(), dims.size())));
  PENSTOCK_TRY(Place b, builder.reshaped(second, aligned(second.layout.dims(), dims.size())));
  const bool commutes = algorithm != dnnl_binary_sub && algorithm != dnnl_binary_div;
  if (commutes && a.layout.dims() != dims && b.layout.dims() == dims) std::swap(a, b);
  PENSTOCK_TRY(const auto target, builder.any(dims));
  if (required == 0) {
    PENSTOCK_TRY(const bool slow, is_slow(builder, algorithm, a, b, target));
    if (slow) return append_floats(builder, algorithm, a, b, result);
  }
  PENSTOCK_TRY(const Pair pair, arrange(builder, algorithm, a, b, target));
  Fusion fusion{
      .node = id, .result = result, .chain = std::move(chain), .dims = dims, .required = required};
  fusion.buffers = {pair.a.buffer, pair.b.buffer};
  fusion.make = [&](const_dnnl_primitive_attr_t attributes) {
    return describe_binary(builder, algorithm, pair, target, attributes);
  };
  PENSTOCK_TRY(auto fused, fuse(builder, fusion));
  // Only the first operand's place may be written, and only where it is the operand as it was.
  const bool in_place = reuse_first && pair.a.buffer == first.buffer &&
                        pair.a.buffer != pair.b.buffer && pair.a.layout.dims() == dims;
  return finish(builder, fusion, std::move(fused),
                {{DNNL_ARG_SRC_0, pair.a}, {DNNL_ARG_SRC_1, pair.b}},
                in_place ? std::optional(pair.a) : std::nullopt);
}

bool dies_with(const Builder& builder, const Place& place, NodeId id) {
  return builder.is_free_after(place, std::array{id});
}

}  // namespace

std::optional<dnnl_alg_kind_t> binary_algorithm(std::string_view op) {
  constexpr std::pair<std::string_view, dnnl_alg_kind_t> kAlgorithms[] = {
      {"Add", dnnl_binary_add}, {"Div", dnnl_binary_div}, {"Max", dnnl_binary_max},
      {"Min", dnnl_binary_min}, {"Mul", dnnl_binary_mul}, {"Sub", dnnl_binary_sub},
      {"Sum", dnnl_binary_add}};
  const auto* const found =
      std::ranges::find(kAlgorithms, op, [](const auto& entry) { return entry.first; });
  if (found == std::end(kAlgorithms)) return {};
  return found->second;
}

std::optional<Unary> unary_of(const Builder& builder, const Node& node) {
  if (!node.domain.empty() || node.inputs.empty()) return {};
  Unary unary{.input = node.inputs.front(), .ops = {}};
  const auto* const function =
      std::ranges::find(kFunctions, node.op, [](const auto& entry) { return entry.first; });
  std::optional<PostOp> op;
  if (function != std::end(kFunctions)) {
    op = function->second();
  } else if (node.op == "Clip") {
    op = clip(builder, node);
  } else if (node.inputs.size() == 2) {
    const bool scalar_first = builder.constant(node.inputs[0]) != nullptr;
    const auto c = builder.scalar(node.inputs[scalar_first ? 0 : 1]);
    unary.input = node.inputs[scalar_first ? 1 : 0];
    if (c && builder.dims(unary.input) == builder.dims(node.outputs.front())) {
      op = with_scalar(node.op, *c, scalar_first);
    }
  } else {
    op = with_attributes(node);
  }
  if (!op) return {};
  unary.ops.push_back(*op);
  return unary;
}

Status lower_eltwise(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (builder.dtype(node.outputs.front()) != DType::kF32) return lower_elements(builder, id);
  const auto unary = unary_of(builder, node);
  if (!unary && node.op == "Pow") return lower_elements(builder, id);
  if (!unary) return unsupported("expected constant scalars beside its first input");
  PENSTOCK_TRY(const Place from, builder.dense_place(unary->input));
  PENSTOCK_TRY(const auto target, builder.any(from.layout.dims()));
  Link link{.ops = unary->ops, .nodes = {}, .result = node.outputs.front()};
  if (auto joined = joined_link_of(builder, id, unary->input);
      joined && joined->ops.front().kind == PostOp::Kind::kEltwise) {
    link = *std::move(joined);
  }
  const PostOp op = link.ops.front();
  link.ops.erase(link.ops.begin());
  Fusion fusion{.node = id, .result = node.outputs.front(), .dims = from.layout.dims()};
  fusion.required = 1;
  const ValueId last = link.result;
  fusion.chain.push_back(std::move(link));
  std::ranges::move(chain_after(builder, last), std::back_inserter(fusion.chain));
  fusion.buffers = {from.buffer};
  fusion.make = [&](const_dnnl_primitive_attr_t attributes) {
    return builder.describe([&](dnnl_primitive_desc_t* raw) {
      return builder.api().eltwise_forward_primitive_desc_create(
          raw, builder.engine().cpu, dnnl_forward_inference, op.algorithm, from.layout.get(),
          target.get(), op.alpha, op.beta, attributes);
    });
  };
  PENSTOCK_TRY(auto fused, fuse(builder, fusion));
  const bool in_place = dies_with(builder, from, id);
  return finish(builder, fusion, std::move(fused), {{DNNL_ARG_SRC, from}},
                in_place ? std::optional(from) : std::nullopt);
}

Status lower_binary(Builder& builder, NodeId id) {
  if (unary_of(builder, builder.graph().node(id))) return lower_eltwise(builder, id);
  const ValueId result = builder.graph().node(id).outputs.front();
  if (builder.opset() < 7) return unsupported("from opset 7 on, found ", builder.opset());
  if (builder.dtype(result) != DType::kF32) return lower_elements(builder, id);
  return lower_variadic(builder, id);
}

/// Max, Min and Sum of any number: the first two, then each further one.
Status lower_variadic(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  if (node.inputs.size() == 1) return lower_reshape(builder, id);
  if (builder.dtype(node.outputs.front()) != DType::kF32) return lower_elements(builder, id);
  if (unary_of(builder, node)) return lower_eltwise(builder, id);
  const auto algorithm = binary_algorithm(node.op);
  PENSTOCK_TRY(Place sum, builder.dense_place(node.inputs.front()));
  const ValueId result = node.outputs.front();
  bool reuse = dies_with(builder, sum, id);
  for (std::size_t i = 1; i < node.inputs.size(); ++i) {
    PENSTOCK_TRY(const Place next, builder.dense_place(node.inputs[i]));
    const bool last = i + 1 == node.inputs.size();
    auto chain = last ? chain_after(builder, result) : std::vector<Link>{};
    PENSTOCK_CHECK_OK(
        append_binary(builder, id, *algorithm, sum, next, std::move(chain), result, reuse));
    if (!last) {
      PENSTOCK_TRY(sum, builder.place(result));
    }
    reuse = true;
  }
  return {};
}

/// Times one for every element of the result.
Status lower_expand(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const Dims dims = at_least_1d(builder.dims(result));
  if (count_of(builder.dims(node.inputs[0])) == count_of(dims)) return lower_reshape(builder, id);
  if (builder.dtype(result) != DType::kF32) return lower_elements(builder, id);
  PENSTOCK_TRY(const Place from, builder.dense_place(node.inputs[0]));
  const std::vector<float> ones(static_cast<std::size_t>(count_of(dims)), 1.0F);
  PENSTOCK_TRY(const Place all, builder.new_constant(ones, dims));
  return append_binary(builder, id, dnnl_binary_mul, all, from, chain_after(builder, result),
                       result, false);
}

/// Behind a convolution it is folded into the weights; here it stands alone.
Status lower_batch_normalization(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId x = node.inputs.front();
  const auto affine = affine_of(builder, id, x);
  if (!affine) return unsupported("expected constant parameters, one output and spatial=1");
  PENSTOCK_TRY(const Place from, builder.dense_place(x));
  Dims channels(from.layout.rank(), 1);
  channels[1] = from.layout.dims()[1];
  PENSTOCK_TRY(const Place scale, builder.new_constant(affine->scale, channels));
  Link shift{.ops = {{.kind = PostOp::Kind::kBinary,
                      .algorithm = dnnl_binary_add,
                      .channels = affine->shift}},
             .nodes = {},
             .result = node.outputs.front()};
  std::vector<Link> chain = {std::move(shift)};
  std::ranges::move(chain_after(builder, node.outputs.front()), std::back_inserter(chain));
  return append_binary(builder, id, dnnl_binary_mul, from, scale, std::move(chain),
                       node.outputs.front(), dies_with(builder, from, id), 1);
}

Status lower_prelu(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(const Place from, builder.dense_place(node.inputs[0]));
  PENSTOCK_TRY(const Place given, builder.plain_place(node.inputs[1]));
  PENSTOCK_TRY(const Place slope,
               builder.reshaped(given, aligned(given.layout.dims(), from.layout.rank())));
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(const auto wanted, builder.any(slope.layout.dims()));
  PENSTOCK_TRY(const auto target, builder.any(from.layout.dims()));
  PENSTOCK_TRY(const auto descriptor, builder.describe([&](dnnl_primitive_desc_t* raw) {
    return builder.api().prelu_forward_primitive_desc_create(
        raw, builder.engine().cpu, dnnl_forward_inference, from.layout.get(), wanted.get(),
        target.get(), attributes.get());
  }));
  PENSTOCK_TRY(const auto weights, builder.layout_of(descriptor, dnnl_query_weights_md));
  PENSTOCK_TRY(const Place ordered, builder.reordered(slope, weights));
  const Fusion fusion{.node = id, .result = node.outputs.front(), .dims = from.layout.dims()};
  return finish(builder, fusion, {.descriptor = descriptor},
                {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, ordered}},
                dies_with(builder, from, id) ? std::optional(from) : std::nullopt);
}

}  // namespace penstock::onednn
