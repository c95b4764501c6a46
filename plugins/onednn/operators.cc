#include "operators.h"

#include <algorithm>
#include <array>
#include <utility>

namespace penstock::onednn {
namespace {

constexpr std::pair<std::string_view, Operator> kLowerings[] = {
    {"Abs", {lower_eltwise, true}},
    {"Add", {lower_binary, true}},
    {"And", {lower_elements, true}},
    {"AveragePool", {lower_pooling}},
    {"BatchNormalization", {lower_batch_normalization}},
    {"Cast", {lower_cast, true}},
    {"Ceil", {lower_elements, true}},
    {"Clip", {lower_eltwise}},
    {"Concat", {lower_concat, true}},
    {"Conv", {lower_convolution}},
    {"ConvTranspose", {lower_deconvolution}},
    {"Cos", {lower_elements, true}},
    {"CumSum", {lower_cumulative_sum, true}},
    {"DepthToSpace", {lower_depth_to_space}},
    {"Div", {lower_binary, true}},
    {"Dropout", {lower_reshape, true}},
    {"Elu", {lower_eltwise}},
    {"Equal", {lower_elements, true}},
    {"Erf", {lower_elements, true}},
    {"Exp", {lower_eltwise}},
    {"Expand", {lower_expand, true}},
    {"Flatten", {lower_reshape, true}},
    {"Floor", {lower_elements, true}},
    {"GRU", {lower_recurrence, true}},
    {"Gather", {lower_gather, true}},
    {"GatherElements", {lower_gather_elements, true}},
    {"GatherND", {lower_gather_nd, true}},
    {"Gelu", {lower_eltwise}},
    {"Gemm", {lower_gemm}},
    {"GlobalAveragePool", {lower_global_pooling}},
    {"GlobalMaxPool", {lower_global_pooling}},
    {"Greater", {lower_elements, true}},
    {"GreaterOrEqual", {lower_elements, true}},
    {"HardSigmoid", {lower_eltwise}},
    {"HardSwish", {lower_eltwise}},
    {"Identity", {lower_reshape, true}},
    {"IsNaN", {lower_elements, true}},
    {"LRN", {lower_lrn}},
    {"LSTM", {lower_recurrence, true}},
    {"LayerNormalization", {lower_layer_normalization}},
    {"LeakyRelu", {lower_eltwise}},
    {"Less", {lower_elements, true}},
    {"LessOrEqual", {lower_elements, true}},
    {"Log", {lower_eltwise}},
    {"LogSoftmax", {lower_softmax}},
    {"MatMul", {lower_matmul}},
    {"Max", {lower_variadic, true}},
    {"MaxPool", {lower_pooling}},
    {"Min", {lower_variadic, true}},
    {"Mish", {lower_eltwise}},
    {"Mod", {lower_elements, true}},
    {"Mul", {lower_binary, true}},
    {"Neg", {lower_eltwise, true}},
    {"Not", {lower_elements, true}},
    {"Or", {lower_elements, true}},
    {"PRelu", {lower_prelu}},
    {"Pad", {lower_pad}},
    {"Pow", {lower_eltwise}},
    {"Reciprocal", {lower_eltwise}},
    {"ReduceMax", {lower_reduction}},
    {"ReduceMean", {lower_reduction}},
    {"ReduceMin", {lower_reduction}},
    {"ReduceSum", {lower_reduction}},
    {"Relu", {lower_eltwise}},
    {"Reshape", {lower_reshape, true}},
    {"Resize", {lower_resize}},
    {"Round", {lower_eltwise}},
    {"ScatterND", {lower_scatter_nd, true}},
    {"Sigmoid", {lower_eltwise}},
    {"Sign", {lower_elements, true}},
    {"Sin", {lower_elements, true}},
    {"Slice", {lower_slice, true}},
    {"Softmax", {lower_softmax}},
    {"Softplus", {lower_eltwise}},
    {"Split", {lower_split, true}},
    {"Sqrt", {lower_eltwise}},
    {"Squeeze", {lower_reshape, true}},
    {"Sub", {lower_binary, true}},
    {"Sum", {lower_variadic, true}},
    {"Tanh", {lower_eltwise}},
    {"Tile", {lower_tile, true}},
    {"Transpose", {lower_transpose, true}},
    {"Unsqueeze", {lower_reshape, true}},
    {"Where", {lower_where, true}},
    {"Xor", {lower_elements, true}},
};

}  // namespace

std::optional<Operator> lowering_of(std::string_view op) {
  const auto* const found =
      std::ranges::find(kLowerings, op, [](const auto& e) { return e.first; });
  if (found == std::end(kLowerings)) return {};
  return found->second;
}

}  // namespace penstock::onednn
