// How each operator becomes expressions, kernels and calls of the libraries.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "builder.h"

namespace penstock::cuda {

/// Defines the outputs of one node, and of nodes after it that its step takes in (which it marks
/// done). \error kUnimplemented  says what of it is not done.
using Lowering = Status (*)(Builder&, NodeId);

/// Of ONNX's own domain; null where there is none.
Lowering lowering_of(std::string_view op);

/// Whether each element of its one output is a function of one element of each input.
bool is_pointwise(std::string_view op);

Status lower_pointwise(Builder& builder, NodeId id);
Status lower_batch_normalization(Builder& builder, NodeId id);
Status lower_cast(Builder& builder, NodeId id);
Status lower_clip(Builder& builder, NodeId id);
Status lower_where(Builder& builder, NodeId id);
Status lower_reshape(Builder& builder, NodeId id);
Status lower_expand(Builder& builder, NodeId id);
Status lower_tile(Builder& builder, NodeId id);
Status lower_transpose(Builder& builder, NodeId id);
Status lower_slice(Builder& builder, NodeId id);
Status lower_split(Builder& builder, NodeId id);
Status lower_concat(Builder& builder, NodeId id);
Status lower_depth_to_space(Builder& builder, NodeId id);
Status lower_space_to_depth(Builder& builder, NodeId id);
Status lower_pad(Builder& builder, NodeId id);
Status lower_gather(Builder& builder, NodeId id);
Status lower_gather_elements(Builder& builder, NodeId id);
Status lower_reduction(Builder& builder, NodeId id);
Status lower_softmax(Builder& builder, NodeId id);
Status lower_layer_normalization(Builder& builder, NodeId id);
Status lower_instance_normalization(Builder& builder, NodeId id);
Status lower_pooling(Builder& builder, NodeId id);
Status lower_global_pooling(Builder& builder, NodeId id);
Status lower_resize(Builder& builder, NodeId id);
Status lower_matmul(Builder& builder, NodeId id);
Status lower_gemm(Builder& builder, NodeId id);
Status lower_convolution(Builder& builder, NodeId id);

using lower::float_or;
using lower::from_front;
using lower::string_or;
using lower::unsupported;

}  // namespace penstock::cuda
