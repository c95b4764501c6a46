#include "rules.h"

#include "penstock/base/error.h"

namespace penstock::openvino {
namespace {

// Types that it computes in as they are. Left out: f64 and bf16, which it computes in f32, and
// integers that it computes in i32 and that wrap (u32, u64, u16, i16). i64 becomes i32 as well: it
// is kept for indices and shapes, whose values fit.
constexpr const char* kTypeCondition =
    R"("dtype": ["f32", "f16", "i32", "i64", "i8", "u8", "bool"])";

// Without a rank that is known, its CPU plugin compiles nothing.
constexpr const char* kRanks = R"("rank": [0, 1, 2, 3, 4, 5, 6])";

// Elementwise and the rest that needs no word.
constexpr const char* kOps =
    R"("Abs", "Acos", "Acosh", "Add", "And", "ArgMax", "ArgMin", "Asin", "Asinh", "Atan", "Atanh",
       "AveragePool", "BatchNormalization", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
       "BitwiseXor", "Cast", "CastLike", "Ceil", "Celu", "Clip", "Compress", "Concat", "Constant",
       "ConstantOfShape", "Conv", "ConvInteger", "ConvTranspose", "Cos", "Cosh", "CumSum",
       "DepthToSpace", "DequantizeLinear", "Div", "Einsum", "Elu", "Equal", "Erf", "Exp", "Expand",
       "EyeLike", "Flatten", "Floor", "Gather", "GatherElements", "GatherND", "Gelu", "Gemm",
       "GlobalAveragePool", "GlobalMaxPool", "Greater", "GreaterOrEqual", "GroupNormalization",
       "HardSigmoid", "HardSwish", "Hardmax", "Identity", "InstanceNormalization", "IsInf", "IsNaN",
       "LRN", "LayerNormalization", "LeakyRelu", "Less", "LessOrEqual", "Log", "LogSoftmax",
       "LpNormalization", "LpPool", "MatMul", "MatMulInteger", "Max", "Mean",
       "MeanVarianceNormalization", "Min", "Mish", "Mod", "Mul", "Neg", "NonZero", "Not", "OneHot",
       "Or", "PRelu", "Pow", "QLinearConv", "QLinearMatMul", "QuantizeLinear", "RMSNormalization",
       "Range", "Reciprocal", "ReduceL1", "ReduceL2", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
       "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare", "Relu", "Reshape",
       "ReverseSequence", "RotaryEmbedding", "Round", "ScatterElements", "ScatterND", "Selu",
       "Shape", "Shrink", "Sigmoid", "Sign", "Sin", "Sinh", "Size", "Slice", "Softmax", "Softplus",
       "Softsign", "SpaceToDepth", "Split", "Sqrt", "Sub", "Sum", "Swish", "Tan", "Tanh",
       "ThresholdedRelu", "Transpose", "Trilu", "Upsample", "Where", "Xor")";

/// Operators that hold only where more than the types is given.
std::string limited(const char* ops, const char* more) {
  return concat(R"({"ops": [)", ops, R"(], "opset": [1, 27], "where": [{"input": "all", )",
                kTypeCondition, ", ", kRanks, R"(}, {"output": "all", )", kTypeCondition, ", ",
                kRanks, "}", more, "]}");
}

}  // namespace

std::string rules() {
  std::string rule = limited(kOps, "");
  const auto add = [&](const char* ops, const char* more) { rule += ",\n" + limited(ops, more); };
  // The rank of the result follows from the values of the axes.
  add(R"("Squeeze", "Unsqueeze")", R"(, {"input": 1, "constant": true})");
  add(R"("Dropout")", R"(, {"input": 2, "given": false})");
  add(R"("GridSample")", R"(, {"input": 0, "rank": [4]})");
  // layout 1, batch first, comes out in another shape; peepholes are left out.
  add(R"("GRU", "RNN")", R"(, {"attribute": "layout", "in": [0, null]})");
  add(R"("LSTM")", R"(, {"attribute": "layout", "in": [0, null]}, {"input": 7, "given": false})");
  // Rounds a last window up that lies in the padding alone.
  add(R"("MaxPool")", R"(, {"attribute": "ceil_mode", "in": [0, null]})");
  add(R"("Pad")", R"(, {"attribute": "mode", "in": ["constant", "edge", "reflect", null]})");
  add(R"("ReduceLogSum")", R"(, {"input": 1, "constant": true})");
  add(R"("Resize")",
      R"(, {"attribute": "antialias", "in": [0, null]},
           {"attribute": "exclude_outside", "in": [0, null]},
           {"attribute": "keep_aspect_ratio_policy", "in": ["stretch", null]},
           {"attribute": "coordinate_transformation_mode",
            "in": ["half_pixel", "pytorch_half_pixel", "asymmetric", null]})");
  add(R"("RoiAlign")", R"(, {"attribute": "mode", "in": ["avg", null]})");
  // Repeats that are only known when it runs give wrong values (2026.4).
  add(R"("Tile")", R"(, {"input": 1, "constant": true})");
  // Of equal values it may take another first; floats are seldom equal.
  add(R"("TopK")", R"(, {"input": 0, "dtype": ["f32"]})");
  // Requests of one compiled model wait for one another: each context compiles for itself.
  return concat(R"({"version": 1, "weights": "each", "rule": {"combine": {"union": [)", rule,
                "]}}}");
}

}  // namespace penstock::openvino
