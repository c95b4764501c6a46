#include "operators.h"

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::onednn {
namespace {

constexpr std::pair<std::string_view, Lowering> kLowerings[] = {
    {"Abs", lower_eltwise},
    {"Add", lower_binary},
    {"AveragePool", lower_pooling},
    {"BatchNormalization", lower_batch_normalization},
    {"Clip", lower_eltwise},
    {"Concat", lower_concat},
    {"Conv", lower_convolution},
    {"ConvTranspose", lower_deconvolution},
    {"DepthToSpace", lower_depth_to_space},
    {"Div", lower_binary},
    {"Dropout", lower_reshape},
    {"Elu", lower_eltwise},
    {"Exp", lower_eltwise},
    {"Expand", lower_expand},
    {"Flatten", lower_reshape},
    {"Gelu", lower_eltwise},
    {"Gemm", lower_gemm},
    {"GlobalAveragePool", lower_global_pooling},
    {"GlobalMaxPool", lower_global_pooling},
    {"HardSigmoid", lower_eltwise},
    {"HardSwish", lower_eltwise},
    {"Identity", lower_reshape},
    {"LRN", lower_lrn},
    {"LayerNormalization", lower_layer_normalization},
    {"LeakyRelu", lower_eltwise},
    {"Log", lower_eltwise},
    {"LogSoftmax", lower_softmax},
    {"MatMul", lower_matmul},
    {"Max", lower_variadic},
    {"MaxPool", lower_pooling},
    {"Min", lower_variadic},
    {"Mish", lower_eltwise},
    {"Mul", lower_binary},
    {"Neg", lower_eltwise},
    {"PRelu", lower_prelu},
    {"Pad", lower_pad},
    {"Pow", lower_eltwise},
    {"Reciprocal", lower_eltwise},
    {"ReduceMax", lower_reduction},
    {"ReduceMean", lower_reduction},
    {"ReduceMin", lower_reduction},
    {"ReduceSum", lower_reduction},
    {"Relu", lower_eltwise},
    {"Reshape", lower_reshape},
    {"Resize", lower_resize},
    {"Round", lower_eltwise},
    {"Sigmoid", lower_eltwise},
    {"Slice", lower_slice},
    {"Softmax", lower_softmax},
    {"Softplus", lower_eltwise},
    {"Split", lower_split},
    {"Sqrt", lower_eltwise},
    {"Squeeze", lower_reshape},
    {"Sub", lower_binary},
    {"Sum", lower_variadic},
    {"Tanh", lower_eltwise},
    {"Transpose", lower_transpose},
    {"Unsqueeze", lower_reshape},
};

}  // namespace

Lowering lowering_of(std::string_view op) {
  const auto* const found =
      std::ranges::find(kLowerings, op, [](const auto& e) { return e.first; });
  return found == std::end(kLowerings) ? nullptr : found->second;
}

}  // namespace penstock::onednn
