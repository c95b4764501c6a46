#include "chain.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <numeric>
#include <string_view>
#include <utility>

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
std::optional<Link> written_gelu(const Builder& builder, ValueId value,
                                 std::optional<GeluHalf> half, NodeId other,
                                 dnnl_alg_kind_t algorithm) {
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

/// A GELU by tanh, whose argument is read three times.
std::optional<Link> gelu_of_three(const Builder& builder, ValueId value,
                                  std::vector<NodeId> readers) {
  std::ranges::sort(readers);
  do {
    auto half = tanh_half(builder, value, readers[0], readers[1]);
    if (auto link =
            written_gelu(builder, value, std::move(half), readers[2], dnnl_eltwise_gelu_tanh)) {
      return link;
    }
  } while (std::ranges::next_permutation(readers).found);
  return {};
}

std::optional<Link> next_link(const Builder& builder, ValueId value) {
  if (const auto reader = builder.only_reader(value)) return link_of(builder, *reader, value);
  const auto& readers = builder.graph().value(value).consumers;
  if (builder.graph().value(value).is_output) return {};
  if (readers.size() == 3) return gelu_of_three(builder, value, readers);
  if (readers.size() != 2) return {};
  for (const auto& [a, b] :
       {std::pair(readers[0], readers[1]), std::pair(readers[1], readers[0])}) {
    if (auto link = gate(builder, value, a, b)) return link;
    if (auto link = written_prelu(builder, value, a, b)) return link;
    if (auto link =
            written_gelu(builder, value, erf_half(builder, value, a), b, dnnl_eltwise_gelu_erf)) {
      return link;
    }
  }
  return {};
}

/// An operand of a post-operation as the primitive must see it.
struct Operand {
  Dims dims;
  bool full = false;  // As large as the result: in the result's layout.
};

/// ONNX's broadcast into `value_dims`, where the primitive sees these as `dims`.
std::optional<Operand> operand_of(const Dims& found, const Dims& value_dims, const Dims& dims) {
  Dims aligned = found;
  aligned.insert(aligned.begin(), value_dims.size() - aligned.size(), 1);
  if (aligned == value_dims) return Operand{dims, true};
  if (value_dims == dims) return Operand{aligned, false};
  Dims last(dims.size(), 1);
  if (count_of(aligned) == 1) return Operand{last, false};
  last.back() = dims.back();
  if (aligned.back() == dims.back() && count_of(aligned) == dims.back()) {
    return Operand{last, false};
  }
  return {};
}

/// The part of a chain that is to be fused, on its way to a descriptor.
class Attempt {
 public:
  Attempt(Builder& builder, const Fusion& fusion, std::size_t links)
      : builder_(builder), fusion_(fusion), links_(links) {}

  /// Empty where an operand cannot be seen as the primitive needs it.
  Result<std::optional<Fused>> make(const Layout& result);
  Status add_arguments(Fused& fused);

 private:
  Result<bool> add(const Link& link, const PostOp& op, const Layout& result);
  Result<bool> add_binary(const Link& link, const PostOp& op, const Layout& result);
  [[nodiscard]] bool may_sum(const PostOp& op) const;
  Status check(dnnl_status_t status) { return builder_.engine().check(status, "fused operator"); }

  Builder& builder_;
  const Fusion& fusion_;
  std::size_t links_;
  std::shared_ptr<dnnl_post_ops> post_ops_;
  int count_ = 0;
  ValueId sum_ = ValueId::kNone;
  struct Pending {
    int name;
    ValueId value;
    std::vector<float> channels;
    Operand operand;
    Layout layout;
  };
  std::vector<Pending> pending_;
};

Result<std::optional<Fused>> Attempt::make(const Layout& result) {
  dnnl_post_ops_t raw = nullptr;
  PENSTOCK_CHECK_OK(check(builder_.api().post_ops_create(&raw)));
  post_ops_ = {raw, builder_.api().post_ops_destroy};
  for (std::size_t i = 0; i < links_; ++i) {
    for (const auto& op : fusion_.chain[i].ops) {
      PENSTOCK_TRY(const bool added, add(fusion_.chain[i], op, result));
      if (!added) return std::optional<Fused>();
    }
  }
  PENSTOCK_TRY(const auto attributes, builder_.attributes(raw));
  auto descriptor = fusion_.make(attributes.get());
  if (!descriptor) return std::optional<Fused>();
  Fused fused{.descriptor = *std::move(descriptor), .links = links_};
  return std::optional(std::move(fused));
}

Result<bool> Attempt::add(const Link& link, const PostOp& op, const Layout& result) {
  const Api& api = builder_.api();
  if (op.kind == PostOp::Kind::kBinary) return add_binary(link, op, result);
  if (op.kind == PostOp::Kind::kEltwise) {
    PENSTOCK_CHECK_OK(
        check(api.post_ops_append_eltwise(post_ops_.get(), op.algorithm, op.alpha, op.beta)));
  } else {
    if (fusion_.dims.size() < 2 || builder_.dims(link.result) != fusion_.dims) return false;
    constexpr int kPerChannel = 1 << 1;
    if (api.post_ops_append_prelu(post_ops_.get(), kPerChannel) != dnnl_success) return false;
    Dims dims(fusion_.dims.size(), 1);
    dims[1] = fusion_.dims[1];
    pending_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(count_) | DNNL_ARG_WEIGHTS,
                        ValueId::kNone,
                        op.channels,
                        {dims, false},
                        {}});
  }
  ++count_;
  return true;
}

Result<bool> Attempt::add_binary(const Link& link, const PostOp& op, const Layout& result) {
  if (!fusion_.binaries) return false;
  const Dims value_dims = at_least_1d(builder_.dims(link.result));
  std::optional<Operand> operand;
  if (op.operand == ValueId::kNone) {
    Dims channels(fusion_.dims.size(), 1);
    if (fusion_.dims.size() < 2 || value_dims != fusion_.dims) return false;
    channels[1] = fusion_.dims[1];
    operand = Operand{channels, false};
  } else {
    operand = operand_of(builder_.dims(op.operand), value_dims, fusion_.dims);
  }
  if (!operand) return false;
  const Api& api = builder_.api();
  if (operand->full && may_sum(op)) {
    if (api.post_ops_append_sum(post_ops_.get(), 1, 0, dnnl_data_type_undef) != dnnl_success) {
      return false;
    }
    sum_ = op.operand;
  } else {
    PENSTOCK_TRY(const auto plain, builder_.plain(operand->dims));
    const Layout& layout = operand->full ? result : plain;
    if (api.post_ops_append_binary(post_ops_.get(), op.algorithm, layout.get()) != dnnl_success) {
      return false;
    }
    pending_.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(count_) | DNNL_ARG_SRC_1, op.operand,
                        op.channels, *operand, layout});
  }
  ++count_;
  return true;
}

/// What is added lies in memory that nobody needs afterwards, and that is not read meanwhile.
bool Attempt::may_sum(const PostOp& op) const {
  if (!fusion_.sums || op.algorithm != dnnl_binary_add || sum_ != ValueId::kNone ||
      builder_.constant(op.operand) != nullptr || op.operand == ValueId::kNone) {
    return false;
  }
  const auto place = builder_.place(op.operand);
  if (!place || std::ranges::find(fusion_.buffers, place->buffer) != fusion_.buffers.end()) {
    return false;
  }
  std::vector<NodeId> nodes = {fusion_.node};
  for (std::size_t i = 0; i < links_; ++i) {
    std::ranges::copy(fusion_.chain[i].nodes, std::back_inserter(nodes));
  }
  return builder_.is_free_after(*place, nodes);
}

/// Brings the operands to where the descriptor wants them.
Status Attempt::add_arguments(Fused& fused) {
  PENSTOCK_TRY(const auto result, builder_.layout_of(fused.descriptor, dnnl_query_dst_md));
  const auto seen = [&](ValueId id, const Operand& operand, const Layout& wanted) -> Result<Place> {
    PENSTOCK_TRY(const Place own, builder_.place(id));
    if (own.layout.dims() == operand.dims) return builder_.place_as(id, wanted);
    PENSTOCK_TRY(const Place plain, builder_.plain_place(id));
    PENSTOCK_TRY(const Place view, builder_.reshaped(plain, operand.dims));
    return builder_.reordered(view, wanted);
  };
  for (const auto& [name, value, channels, operand, layout] : pending_) {
    if (value == ValueId::kNone) {
      PENSTOCK_TRY(Place place, builder_.new_constant(channels, operand.dims));
      fused.arguments.push_back({name, std::move(place)});
    } else {
      PENSTOCK_TRY(Place place, seen(value, operand, layout));
      fused.arguments.push_back({name, std::move(place)});
    }
  }
  if (sum_ != ValueId::kNone) {
    PENSTOCK_TRY(fused.target, seen(sum_, {fusion_.dims, true}, result));
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

bool is_reference(const Builder& builder, const Descriptor& descriptor) {
  return builder.implementation_of(descriptor).find("ref") != std::string::npos;
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

Result<Fused> fuse(Builder& builder, const Fusion& fusion) {
  PENSTOCK_TRY(const auto attributes, builder.attributes(nullptr));
  PENSTOCK_TRY(auto alone, fusion.make(attributes.get()));
  if (fusion.chain.empty()) return Fused{.descriptor = std::move(alone)};
  PENSTOCK_TRY(const auto result, builder.layout_of(alone, dnnl_query_dst_md));
  const bool slow_alone = is_reference(builder, alone);
  for (std::size_t links = fusion.chain.size(); links > 0; --links) {
    Attempt attempt(builder, fusion, links);
    PENSTOCK_TRY(auto fused, attempt.make(result));
    if (!fused) continue;
    const bool acceptable =
        links <= fusion.required || slow_alone || !is_reference(builder, fused->descriptor);
    if (!acceptable) continue;
    PENSTOCK_CHECK_OK(attempt.add_arguments(*fused));
    return *std::move(fused);
  }
  if (fusion.required > 0) return make_error(Code::kUnimplemented, "oneDNN does not fuse it");
  return Fused{.descriptor = std::move(alone)};
}

Status finish(Builder& builder, const Fusion& fusion, Fused fused, std::vector<Argument> arguments,
              const std::optional<Place>& in_place) {
  PENSTOCK_TRY(auto layout, builder.layout_of(fused.descriptor, dnnl_query_dst_md));
  Place target;
  if (fused.target) {
    target = *std::move(fused.target);
  } else if (in_place && in_place->layout.same(layout)) {
    target = *in_place;
  } else {
    target = builder.new_place(std::move(layout));
  }
  arguments.push_back({DNNL_ARG_DST, target});
  std::ranges::move(fused.arguments, std::back_inserter(arguments));
  PENSTOCK_CHECK_OK(builder.append(fused.descriptor, std::move(arguments)));
  ValueId result = fusion.result;
  for (std::size_t i = 0; i < fused.links; ++i) {
    for (const NodeId node : fusion.chain[i].nodes) builder.mark_done(node);
    result = fusion.chain[i].result;
  }
  builder.mark_done(fusion.node);
  PENSTOCK_TRY(Place place, builder.reshaped(target, at_least_1d(builder.dims(result))));
  builder.define(result, std::move(place));
  return {};
}

}  // namespace penstock::onednn
