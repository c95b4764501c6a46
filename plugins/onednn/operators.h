// How each operator becomes primitives.
#pragma once

#include <string_view>

#include "builder.h"

namespace penstock::onednn {

/// Appends the steps of one node, and of the nodes after it that its primitive takes in (which it
/// marks done), and defines their outputs. \error kUnimplemented  says what of it is not done.
using Lowering = Status (*)(Builder&, NodeId);

/// Of ONNX's own domain; null where there is none.
Lowering lowering_of(std::string_view op);

Status lower_convolution(Builder& builder, NodeId id);
Status lower_deconvolution(Builder& builder, NodeId id);
Status lower_matmul(Builder& builder, NodeId id);
Status lower_gemm(Builder& builder, NodeId id);
Status lower_pooling(Builder& builder, NodeId id);
Status lower_global_pooling(Builder& builder, NodeId id);
Status lower_eltwise(Builder& builder, NodeId id);
Status lower_binary(Builder& builder, NodeId id);
Status lower_variadic(Builder& builder, NodeId id);
Status lower_expand(Builder& builder, NodeId id);
Status lower_batch_normalization(Builder& builder, NodeId id);
Status lower_prelu(Builder& builder, NodeId id);
Status lower_softmax(Builder& builder, NodeId id);
Status lower_layer_normalization(Builder& builder, NodeId id);
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

/// kUnimplemented: what of the operator is not done, and what was found.
template <typename... Args>
Error unsupported(const Args&... args) {
  return make_error(Code::kUnimplemented, args...);
}

}  // namespace penstock::onednn
