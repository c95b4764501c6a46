// Chain: the pointwise operators behind a node that its primitive computes as it writes.
#pragma once

#include <optional>
#include <vector>

#include "builder.h"

namespace penstock::onednn {

/// One of oneDNN's post-operations: y = f(y), or y = f(y, operand).
struct PostOp {
  enum class Kind { kEltwise, kBinary, kPrelu };
  Kind kind = Kind::kEltwise;
  dnnl_alg_kind_t algorithm = dnnl_alg_kind_undef;
  float alpha = 0, beta = 0;         ///< kEltwise
  ValueId operand = ValueId::kNone;  ///< kBinary: a value; kNone: `channels`.
  std::vector<float> channels;       ///< kBinary, kPrelu: one number for each index of dim 1.
};

PostOp eltwise(dnnl_alg_kind_t algorithm, float alpha = 0, float beta = 0);

/// A node, or a few that amount to one function of one value, as post-operations; none where it
/// only sees the value as another shape.
struct Link {
  std::vector<PostOp> ops;
  std::vector<NodeId> nodes;
  ValueId result = ValueId::kNone;
};

/// The link made by `node` alone, of its input `value`; empty if there is none.
std::optional<Link> link_of(const Builder& builder, NodeId node, ValueId value);

/// All links behind `value`, each read by the next alone. Empty unless the builder optimises.
std::vector<Link> chain_after(const Builder& builder, ValueId value);

/// The link that several nodes behind `value` make together, one of them `node`; empty if none.
/// For a value that no primitive of ours writes.
std::optional<Link> joined_link_of(const Builder& builder, NodeId node, ValueId value);

/// One number for each index of `axis`, where a constant gives that: by its broadcast into `dims`
/// it varies along no other. Empty where it does not.
std::vector<float> per_channel(const Builder& builder, ValueId id, const Dims& dims,
                               std::size_t axis = 1);

/// A function of one channel: x * scale + shift, per index of dim 1. For what folds into weights.
struct Affine {
  std::vector<float> scale, shift;
  ValueId result = ValueId::kNone;
};

/// What `node` does to `value`, if that is affine per channel and constant.
std::optional<Affine> affine_of(const Builder& builder, NodeId node, ValueId value);

}  // namespace penstock::onednn
