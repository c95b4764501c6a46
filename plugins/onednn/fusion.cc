#include "fusion.h"

#include <algorithm>
#include <string>
#include <utility>

namespace penstock::onednn {
namespace {

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

bool is_reference(const Builder& builder, const Descriptor& descriptor) {
  return builder.implementation_of(descriptor).find("ref") != std::string::npos;
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
