// How each operator becomes primitives.
#pragma once

#include <string_view>

#include "builder.h"

namespace penstock::onednn {

/// Appends the steps of one node, and of the nodes after it that its primitive takes in (which it
/// marks done), and defines their outputs. \error kUnimplemented  says what of it is not done.
using Lowering = Status (*)(Builder&, NodeId);

struct Operator {
  Lowering lower;
  bool any_type = false;  ///< Not of f32 alone: it says itself what it does not take.
};

/// Of ONNX's own domain; empty where there is none.
std::optional<Operator> lowering_of(std::string_view op);

Status lower_convolution(Builder& builder, NodeId id);
Status lower_deconvolution(Builder& builder, NodeId id);
Status lower_matmul(Builder& builder, NodeId id);
Status lower_gemm(Builder& builder, NodeId id);
Status lower_pooling(Builder& builder, NodeId id);
Status lower_global_pooling(Builder& builder, NodeId id);
Status lower_eltwise(Builder& builder, NodeId id);
Status lower_binary(Builder& builder, NodeId id);
Status lower_elements(Builder& builder, NodeId id);
Status lower_recurrence(Builder& builder, NodeId id);
/// `result` = a OP b of f32 by a loop, for layouts that the library has but slow, general code for.
/// \pre both are strided and broadcast into the result.
Status append_floats(Builder& builder, dnnl_alg_kind_t algorithm, const Place& a, const Place& b,
                     ValueId result);
Status lower_where(Builder& builder, NodeId id);
Status lower_cast(Builder& builder, NodeId id);
Status lower_gather(Builder& builder, NodeId id);
Status lower_gather_elements(Builder& builder, NodeId id);
Status lower_gather_nd(Builder& builder, NodeId id);
Status lower_scatter_nd(Builder& builder, NodeId id);
Status lower_cumulative_sum(Builder& builder, NodeId id);
Status lower_arg_extreme(Builder& builder, NodeId id);
Status lower_variadic(Builder& builder, NodeId id);
Status lower_expand(Builder& builder, NodeId id);
Status lower_tile(Builder& builder, NodeId id);
Status lower_batch_normalization(Builder& builder, NodeId id);
Status lower_prelu(Builder& builder, NodeId id);
Status lower_softmax(Builder& builder, NodeId id);
Status lower_layer_normalization(Builder& builder, NodeId id);
Status lower_instance_normalization(Builder& builder, NodeId id);
Status lower_lrn(Builder& builder, NodeId id);
Status lower_reduction(Builder& builder, NodeId id);
Status lower_resize(Builder& builder, NodeId id);
Status lower_reshape(Builder& builder, NodeId id);
Status lower_transpose(Builder& builder, NodeId id);
Status lower_slice(Builder& builder, NodeId id);
Status lower_split(Builder& builder, NodeId id);
Status lower_concat(Builder& builder, NodeId id);
Status lower_pad(Builder& builder, NodeId id);
Status lower_depth_to_space(Builder& builder, NodeId id);
Status lower_space_to_depth(Builder& builder, NodeId id);

/// The elements begin + i * step of each dimension, as many as `dims` has. \pre it is strided.
Result<Place> window(const Builder& builder, const Place& from, const Dims& begin,
                     const Dims& steps, const Dims& dims);

/// window() where steps may be negative; by a copy where no layout of the library is that view.
Result<Place> part(Builder& builder, const Place& from, const Dims& begin, const Dims& steps,
                   const Dims& dims);

using lower::from_front;
using lower::unsupported;

}  // namespace penstock::onednn
