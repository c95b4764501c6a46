#include "chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>
#include <utility>

#include "gelu.h"
#include "pointwise.h"

namespace penstock::onednn {
namespace {

/// The other input of a node with two.
ValueId other_input(const Node& node, ValueId value) {
  return node.inputs[0] == value ? node.inputs[1] : node.inputs[0];
}

/// Whether `id` broadcasts into `dims` without enlarging it.
bool broadcasts_into(const Builder& builder, ValueId id, const Dims& dims) {
  const Dims found = builder.dims(id);
  if (found.size() > dims.size()) return false;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto have = found[found.size() - 1 - i];
    if (have != 1 && have != dims[dims.size() - 1 - i]) return false;
  }
  return true;
}

PostOp binary(dnnl_alg_kind_t algorithm, ValueId operand) {
  return {.kind = PostOp::Kind::kBinary, .algorithm = algorithm, .operand = operand};
}

PostOp binary(dnnl_alg_kind_t algorithm, std::vector<float> channels) {
  return {.kind = PostOp::Kind::kBinary, .algorithm = algorithm, .channels = std::move(channels)};
}

/// y = relu(y) + slope * min(y, 0)
PostOp prelu(std::vector<float> slopes) {
  const float first = slopes.front();
  if (std::ranges::all_of(slopes, [&](float slope) { return slope == first; })) {
    return eltwise(dnnl_eltwise_relu, first);
  }
  return {.kind = PostOp::Kind::kPrelu, .channels = std::move(slopes)};
}

std::vector<PostOp> binary_ops(const Builder& builder, const Node& node, ValueId value) {
  const auto algorithm = binary_algorithm(node.op);
  if (!algorithm || node.inputs.size() != 2) return {};
  const ValueId other = other_input(node, value);
  const Dims dims = builder.dims(value);
  if (builder.dims(node.outputs.front()) != dims || !broadcasts_into(builder, other, dims) ||
      !builder.available(other)) {
    return {};
  }
  if (node.inputs[0] == value) return {binary(*algorithm, other)};
  switch (*algorithm) {
    case dnnl_binary_sub:
      return {eltwise(dnnl_eltwise_linear, -1, 0), binary(dnnl_binary_add, other)};
    case dnnl_binary_div:
      return {};
    default:
      return {binary(*algorithm, other)};
  }
}

/// min(max(scale * x + shift, low), high): what a chain of such functions comes to.
struct Ramp {
  float scale = 1, shift = 0, low = -kInfinity, high = kInfinity;

  bool apply(const PostOp& op) {
    switch (op.algorithm) {
      case dnnl_eltwise_linear:
        if (op.alpha <= 0) return false;
        scale *= op.alpha;
        shift = shift * op.alpha + op.beta;
        low = low * op.alpha + op.beta;
        high = high * op.alpha + op.beta;
        return true;
      case dnnl_eltwise_clip:
        low = std::clamp(low, op.alpha, op.beta);
        high = std::clamp(high, op.alpha, op.beta);
        return true;
      case dnnl_eltwise_hardsigmoid:
        return apply(eltwise(dnnl_eltwise_linear, op.alpha, op.beta)) &&
               apply(eltwise(dnnl_eltwise_clip, 0, 1));
      default:
        return false;
    }
  }
};

/// x * f(x), as oneDNN has it.
std::vector<PostOp> gated(const std::vector<PostOp>& f) {
  if (f.size() == 1 && f[0].algorithm == dnnl_eltwise_logistic) {
    return {eltwise(dnnl_eltwise_swish, 1)};
  }
  if (f.size() == 2 && f[0].algorithm == dnnl_eltwise_linear && f[0].beta == 0 &&
      f[1].algorithm == dnnl_eltwise_logistic) {
    return {eltwise(dnnl_eltwise_swish, f[0].alpha)};
  }
  Ramp ramp;
  for (const auto& op : f) {
    if (!ramp.apply(op)) return {};
  }
  if (ramp.low != 0 || !(ramp.high > 0) || std::isinf(ramp.high)) return {};
  std::vector<PostOp> ops = {
      eltwise(dnnl_eltwise_hardswish, ramp.scale / ramp.high, ramp.shift / ramp.high)};
  if (std::abs(ramp.high - 1) > 1e-6F) {
    ops.push_back(eltwise(dnnl_eltwise_linear, ramp.high, 0));
  }
  return ops;
}

/// `value` is read by a Mul and by the first of a run of functions that leads to that Mul alone.
std::optional<Link> gate(const Builder& builder, ValueId value, NodeId first, NodeId product) {
  const Node& mul = builder.graph().node(product);
  if (mul.op != "Mul" || mul.inputs.size() != 2 || !mul.domain.empty() ||
      std::ranges::count(mul.inputs, value) != 1) {
    return {};
  }
  std::vector<PostOp> functions;
  Link link{.ops = {}, .nodes = {}, .result = mul.outputs.front()};
  for (NodeId at = first; at != product;) {
    const Node& node = builder.graph().node(at);
    const auto unary = unary_of(builder, node);
    if (!unary || unary->input == ValueId::kNone) return {};
    std::ranges::copy(unary->ops, std::back_inserter(functions));
    link.nodes.push_back(at);
    const auto next = builder.only_reader(node.outputs.front());
    if (!next) return {};
    at = *next;
  }
  link.nodes.push_back(product);
  link.ops = gated(functions);
  if (link.ops.empty()) return {};
  return link;
}

/// relu(x) + factor * relu(-x), written out: PRelu as some converters have it, perhaps with the
/// second term transposed meanwhile. `relu`, `other`: the two readers of `value`.
std::optional<Link> written_prelu(const Builder& builder, ValueId value, NodeId relu,
                                  NodeId other) {
  const Graph& graph = builder.graph();
  if (graph.node(relu).op != "Relu") return {};
  const auto sum = builder.only_reader(graph.node(relu).outputs.front());
  if (!sum || graph.node(*sum).op != "Add") return {};
  const Dims dims = builder.dims(value);
  Dims order(dims.size());  // Where each dimension of the second term comes from.
  std::iota(order.begin(), order.end(), 0);
  const Dims in_order = order;
  std::vector<float> slopes;
  std::vector<NodeId> nodes = {relu};
  constexpr std::array<std::string_view, 3> kSteps = {"Neg", "Relu", "Mul"};
  std::size_t step = 0;
  ValueId term = value;
  for (NodeId at = other; at != *sum;) {
    const Node& node = graph.node(at);
    if (node.op == "Transpose") {
      Dims moved;
      for (const auto axis : node.ints_or("perm", Dims(in_order.rbegin(), in_order.rend()))) {
        moved.push_back(order[static_cast<std::size_t>(axis)]);
      }
      order = std::move(moved);
    } else if (step < kSteps.size() && node.op == kSteps[step]) {
      if (node.op == "Mul") {
        const auto channel = std::ranges::find(order, 1) - order.begin();
        slopes = per_channel(builder, other_input(node, term), builder.dims(term),
                             static_cast<std::size_t>(channel));
      }
      ++step;
    } else {
      return {};
    }
    nodes.push_back(at);
    term = node.outputs.front();
    const auto next = builder.only_reader(term);
    if (!next) return {};
    at = *next;
  }
  if (step != kSteps.size() || slopes.empty() || order != in_order) return {};
  for (float& slope : slopes) slope = -slope;
  nodes.push_back(*sum);
  return Link{.ops = {prelu(std::move(slopes))},
              .nodes = std::move(nodes),
              .result = graph.node(*sum).outputs.front()};
}

std::optional<Link> next_link(const Builder& builder, ValueId value) {
  if (const auto reader = builder.only_reader(value)) return link_of(builder, *reader, value);
  const auto& readers = builder.graph().value(value).consumers;
  if (builder.graph().value(value).is_output) return {};
  if (readers.size() == 3) return gelu_by_tanh(builder, value, readers);
  if (readers.size() != 2) return {};
  for (const auto& [a, b] :
       {std::pair(readers[0], readers[1]), std::pair(readers[1], readers[0])}) {
    if (auto link = gate(builder, value, a, b)) return link;
    if (auto link = written_prelu(builder, value, a, b)) return link;
    if (auto link = gelu_by_erf(builder, value, a, b)) return link;
  }
  return {};
}

}  // namespace

std::vector<float> per_channel(const Builder& builder, ValueId id, const Dims& dims,
                               std::size_t axis) {
  const Tensor* tensor = builder.constant(id);
  if (tensor == nullptr || tensor->dtype() != DType::kF32 || axis >= dims.size() ||
      tensor->dims().size() > dims.size()) {
    return {};
  }
  const auto values = builder.floats(id);
  const auto channels = static_cast<std::size_t>(dims[axis]);
  if (values.size() == 1) return std::vector<float>(channels, values.front());
  const std::size_t left_out = dims.size() - tensor->dims().size();
  if (values.size() != channels || axis < left_out ||
      tensor->dims()[axis - left_out] != dims[axis]) {
    return {};
  }
  return {values.begin(), values.end()};
}

PostOp eltwise(dnnl_alg_kind_t algorithm, float alpha, float beta) {
  return {.kind = PostOp::Kind::kEltwise, .algorithm = algorithm, .alpha = alpha, .beta = beta};
}

std::optional<Affine> affine_of(const Builder& builder, NodeId id, ValueId value) {
  const Node& node = builder.graph().node(id);
  const Dims dims = builder.dims(value);
  if (!node.domain.empty() || dims.size() < 2) return {};
  const auto channels = static_cast<std::size_t>(dims[1]);
  Affine affine{std::vector<float>(channels, 1), std::vector<float>(channels, 0),
                node.outputs.front()};
  if (node.op == "BatchNormalization") {
    const bool plain = node.outputs.size() == 1 && node.int_or("training_mode", 0) == 0 &&
                       node.int_or("spatial", 1) == 1 && node.inputs.size() == 5 &&
                       node.inputs.front() == value;
    if (!plain) return {};
    for (std::size_t i = 1; i < node.inputs.size(); ++i) {
      if (builder.constant(node.inputs[i]) == nullptr) return {};
    }
    const auto parameter = [&](std::size_t i) { return builder.floats(node.inputs[i]); };
    const float epsilon = float_or(node, "epsilon", 1e-5F);
    for (std::size_t c = 0; c < channels; ++c) {
      affine.scale[c] = parameter(1)[c] / std::sqrt(parameter(4)[c] + epsilon);
      affine.shift[c] = parameter(2)[c] - parameter(3)[c] * affine.scale[c];
    }
    return affine;
  }
  const bool is_sum = node.op == "Add" || node.op == "Sub";
  const bool is_product = node.op == "Mul" || node.op == "Div";
  if ((!is_sum && !is_product) || node.inputs.size() != 2 ||
      builder.dims(node.outputs.front()) != dims) {
    return {};
  }
  const bool first = node.inputs[0] == value;
  auto other = per_channel(builder, other_input(node, value), dims);
  if (other.empty() || (!first && node.op == "Div")) return {};
  if (is_product) {
    affine.scale = std::move(other);
    if (node.op == "Div") {
      for (float& scale : affine.scale) scale = 1 / scale;
    }
    return affine;
  }
  affine.shift = std::move(other);
  if (node.op == "Sub" && first) {
    for (float& shift : affine.shift) shift = -shift;
  } else if (node.op == "Sub") {
    std::ranges::fill(affine.scale, -1.0F);
  }
  return affine;
}

std::optional<Link> link_of(const Builder& builder, NodeId id, ValueId value) {
  const Node& node = builder.graph().node(id);
  if (!node.domain.empty() || node.outputs.size() != 1) return {};
  Link link{.ops = {}, .nodes = {id}, .result = node.outputs.front()};
  constexpr std::array<std::string_view, 5> kViews = {"Flatten", "Identity", "Reshape", "Squeeze",
                                                      "Unsqueeze"};
  if (node.inputs.front() == value && std::ranges::find(kViews, node.op) != kViews.end()) {
    return link;
  }
  if (const auto unary = unary_of(builder, node); unary && unary->input == value) {
    link.ops = unary->ops;
  } else if (node.op == "BatchNormalization") {
    if (const auto affine = affine_of(builder, id, value)) {
      link.ops = {binary(dnnl_binary_mul, affine->scale), binary(dnnl_binary_add, affine->shift)};
    }
  } else if (node.op == "PRelu" && node.inputs[0] == value) {
    auto slopes = per_channel(builder, node.inputs[1], builder.dims(value));
    if (!slopes.empty()) link.ops = {prelu(std::move(slopes))};
  } else {
    link.ops = binary_ops(builder, node, value);
  }
  if (link.ops.empty()) return {};
  return link;
}

std::optional<Link> joined_link_of(const Builder& builder, NodeId node, ValueId value) {
  if (!builder.optimize() || builder.only_reader(value)) return {};
  auto link = next_link(builder, value);
  if (!link || std::ranges::find(link->nodes, node) == link->nodes.end()) return {};
  return link;
}

std::vector<Link> chain_after(const Builder& builder, ValueId value) {
  std::vector<Link> chain;
  while (builder.optimize()) {
    auto link = next_link(builder, value);
    if (!link) break;
    value = link->result;
    chain.push_back(*std::move(link));
  }
  return chain;
}

}  // namespace penstock::onednn
