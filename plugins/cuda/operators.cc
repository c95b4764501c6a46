// The table of operators, and what several of them read of a node.
#include "operators.h"

#include <algorithm>
#include <utility>

namespace penstock::cuda {
namespace {

constexpr std::pair<std::string_view, Lowering> kLowerings[] = {
    {"AveragePool", lower_pooling},
    {"BatchNormalization", lower_batch_normalization},
    {"Cast", lower_cast},
    {"Clip", lower_clip},
    {"Concat", lower_concat},
    {"Conv", lower_convolution},
    {"DepthToSpace", lower_depth_to_space},
    {"Dropout", lower_reshape},
    {"Expand", lower_expand},
    {"Flatten", lower_reshape},
    {"Gather", lower_gather},
    {"GatherElements", lower_gather_elements},
    {"Gemm", lower_gemm},
    {"GlobalAveragePool", lower_global_pooling},
    {"GlobalMaxPool", lower_global_pooling},
    {"Identity", lower_reshape},
    {"InstanceNormalization", lower_instance_normalization},
    {"LayerNormalization", lower_layer_normalization},
    {"LogSoftmax", lower_softmax},
    {"MatMul", lower_matmul},
    {"MaxPool", lower_pooling},
    {"Pad", lower_pad},
    {"ReduceL1", lower_reduction},
    {"ReduceL2", lower_reduction},
    {"ReduceMax", lower_reduction},
    {"ReduceMean", lower_reduction},
    {"ReduceMin", lower_reduction},
    {"ReduceProd", lower_reduction},
    {"ReduceSum", lower_reduction},
    {"ReduceSumSquare", lower_reduction},
    {"Reshape", lower_reshape},
    {"Resize", lower_resize},
    {"Slice", lower_slice},
    {"Softmax", lower_softmax},
    {"SpaceToDepth", lower_space_to_depth},
    {"Split", lower_split},
    {"Squeeze", lower_reshape},
    {"Tile", lower_tile},
    {"Transpose", lower_transpose},
    {"Unsqueeze", lower_reshape},
    {"Where", lower_where},
};

}  // namespace

Lowering lowering_of(std::string_view op) {
  const auto* const found =
      std::ranges::find(kLowerings, op, [](const auto& e) { return e.first; });
  if (found != std::end(kLowerings)) return found->second;
  return is_pointwise(op) ? lower_pointwise : nullptr;
}

}  // namespace penstock::cuda
