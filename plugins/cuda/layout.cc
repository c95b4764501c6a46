// Operators that move elements and compute nothing: other views of an expression where that is
// possible.
#include <algorithm>
#include <numeric>
#include <utility>

#include "operators.h"
#include "penstock/lower/slices.h"

namespace penstock::cuda {
namespace {

/// Seen as `apart`, its dimensions reordered, joined again.
Status rearrange(Builder& builder, NodeId id, const Dims& apart, const Dims& order) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto from, builder.value(node.inputs.front()));
  PENSTOCK_TRY(const auto split, builder.reshaped(from, apart));
  PENSTOCK_TRY(auto joined, builder.reshaped(split.permuted(order), builder.dims(result)));
  return builder.define(result, std::move(joined));
}

}  // namespace

/// Everything that gives the same elements in the same order: the inferred shape says the rest.
Status lower_reshape(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  for (std::size_t i = 1; i < node.outputs.size(); ++i) {
    if (node.outputs[i] != ValueId::kNone) return unsupported("gives its first output only");
  }
  if (node.op == "Dropout" && builder.given(node, 2)) return unsupported("takes no training_mode");
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto from, builder.value(node.inputs.front()));
  PENSTOCK_TRY(auto view, builder.reshaped(from, builder.dims(result)));
  return builder.define(result, std::move(view));
}

Status lower_expand(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto from, builder.value(node.inputs.front()));
  return builder.define(result, from.broadcast(builder.dims(result)));
}

/// Each dimension is repeated as one in front of it.
Status lower_tile(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  PENSTOCK_TRY(const auto repeats, lower::numbers(builder.graph(), node, 1, "repeats", {}));
  PENSTOCK_TRY(const auto from, builder.value(node.inputs.front()));
  if (repeats.size() != from.dims.size()) return unsupported("takes as many repeats as dimensions");
  Dims apart;
  Dims repeated;
  for (std::size_t i = 0; i < repeats.size(); ++i) {
    apart.insert(apart.end(), {1, from.dims[i]});
    repeated.insert(repeated.end(), {repeats[i], from.dims[i]});
  }
  PENSTOCK_TRY(const auto split, builder.reshaped(from, apart));
  PENSTOCK_TRY(auto joined, builder.reshaped(split.broadcast(repeated), builder.dims(result)));
  return builder.define(result, std::move(joined));
}

Status lower_transpose(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(const auto from, builder.value(node.inputs.front()));
  const auto rank = static_cast<std::int64_t>(from.dims.size());
  Dims reversed(from.dims.size());
  for (std::int64_t i = 0; i < rank; ++i) reversed[static_cast<std::size_t>(i)] = rank - 1 - i;
  return builder.define(node.outputs.front(), from.permuted(node.ints_or("perm", reversed)));
}

Status lower_slice(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  PENSTOCK_TRY(const auto from, builder.value(node.inputs.front()));
  PENSTOCK_TRY(const auto slices, lower::slices_of(builder.graph(), node, from.dims));
  const ValueId result = node.outputs.front();
  return builder.define(result, from.window(slices.begin, slices.steps, builder.dims(result)));
}

Status lower_split(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  // Each part reads it for itself.
  PENSTOCK_TRY(const auto from, builder.place(node.inputs.front()));
  const std::size_t rank = from.dims.size();
  const std::size_t axis = from_front(node.int_or("axis", 0), rank);
  Dims begin(rank, 0);
  for (const ValueId result : node.outputs) {
    if (result == ValueId::kNone) return unsupported("gives all of its outputs");
    const Dims dims = builder.dims(result);
    PENSTOCK_CHECK_OK(builder.define(result, from.window(begin, Dims(rank, 1), dims)));
    begin[axis] += dims[axis];
  }
  return {};
}

/// Each operand is computed into its part.
Status lower_concat(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId result = node.outputs.front();
  const Expression target = builder.new_place(result);
  const std::size_t rank = target.dims.size();
  const std::size_t axis = from_front(node.int_or("axis", 1), rank);
  Dims begin(rank, 0);
  for (const ValueId input : node.inputs) {
    PENSTOCK_TRY(const auto from, builder.value(input));
    PENSTOCK_CHECK_OK(builder.compute(from, target.window(begin, Dims(rank, 1), from.dims)));
    begin[axis] += from.dims[axis];
  }
  return builder.define(result, target);
}

Status lower_depth_to_space(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const Dims in = builder.dims(node.inputs.front());
  const std::int64_t block = node.int_or("blocksize", 1);
  const std::int64_t depth = in[1] / (block * block);
  if (string_or(node, "mode", "DCR") == "DCR") {
    return rearrange(builder, id, {in[0], block, block, depth, in[2], in[3]}, {0, 3, 4, 1, 5, 2});
  }
  return rearrange(builder, id, {in[0], depth, block, block, in[2], in[3]}, {0, 1, 4, 2, 5, 3});
}

Status lower_space_to_depth(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const Dims in = builder.dims(node.inputs.front());
  const std::int64_t block = node.int_or("blocksize", 1);
  return rearrange(builder, id, {in[0], in[1], in[2] / block, block, in[3] / block, block},
                   {0, 3, 5, 1, 2, 4});
}

}  // namespace penstock::cuda
