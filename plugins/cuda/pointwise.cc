// Operators that treat each element alone: they become expressions and compute nothing by
// themselves.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "operators.h"

namespace penstock::cuda {
namespace {

struct Parameter {
  std::string_view name;
  float otherwise = 0;
};

/// An operator by the function that stands for it, and the attributes that follow its operands.
struct Pointwise {
  std::string_view op, function;
  bool floats = true;  ///< Of f32 alone.
  std::array<Parameter, 2> parameters = {};
};

constexpr float kSeluAlpha = 1.67326319217681884765625F;
constexpr float kSeluGamma = 1.05070102214813232421875F;

constexpr Pointwise kFunctions[] = {
    {"Abs", "magnitude", false},
    {"Acos", "arc_cosine"},
    {"Acosh", "area_cosine"},
    {"Add", "add", false},
    {"And", "both", false},
    {"Asin", "arc_sine"},
    {"Asinh", "area_sine"},
    {"Atan", "arc_tangent"},
    {"Atanh", "area_tangent"},
    {"Ceil", "ceil_of"},
    {"Celu", "celu", true, {{{"alpha", 1}}}},
    {"Cos", "cosine"},
    {"Cosh", "hyperbolic_cosine"},
    {"Div", "quotient", false},
    {"Elu", "elu", true, {{{"alpha", 1}}}},
    {"Equal", "equal", false},
    {"Erf", "error_function"},
    {"Exp", "exponential"},
    {"Floor", "floor_of"},
    {"Gelu", "gelu"},
    {"Greater", "greater", false},
    {"GreaterOrEqual", "greater_or_equal", false},
    {"HardSigmoid", "hard_sigmoid", true, {{{"alpha", 0.2F}, {"beta", 0.5F}}}},
    {"HardSwish", "hard_swish"},
    {"IsNaN", "is_nan"},
    {"LeakyRelu", "leaky_relu", true, {{{"alpha", 0.01F}}}},
    {"Less", "less", false},
    {"LessOrEqual", "less_or_equal", false},
    {"Log", "logarithm"},
    {"Max", "max_of", false},
    {"Mean", "add"},
    {"Min", "min_of", false},
    {"Mish", "mish"},
    {"Mod", "modulo", false},
    {"Mul", "mul", false},
    {"Neg", "negative", false},
    {"Not", "negated", false},
    {"Or", "either", false},
    {"PRelu", "leaky_relu"},
    {"Pow", "power"},
    {"Reciprocal", "reciprocal"},
    {"Relu", "relu"},
    {"Round", "round_of"},
    {"Selu", "selu", true, {{{"alpha", kSeluAlpha}, {"gamma", kSeluGamma}}}},
    {"Sigmoid", "sigmoid"},
    {"Sign", "sign", false},
    {"Sin", "sine"},
    {"Sinh", "hyperbolic_sine"},
    {"Softplus", "softplus"},
    {"Softsign", "softsign"},
    {"Sqrt", "square_root"},
    {"Sub", "sub", false},
    {"Sum", "add"},
    {"Tan", "tangent"},
    {"Tanh", "hyperbolic_tangent"},
    {"ThresholdedRelu", "thresholded_relu", true, {{{"alpha", 1}}}},
    {"Xor", "one_of", false},
};

const Pointwise* pointwise_of(std::string_view op) {
  const auto* const found = std::ranges::find(kFunctions, op, &Pointwise::op);
  return found == std::end(kFunctions) ? nullptr : found;
}

/// The function where attributes choose among several.
std::string_view function_of(const Pointwise& pointwise, const Node& node) {
  if (node.op == "Gelu" && string_or(node, "approximate", "none") == "tanh") return "gelu_tanh";
  if (node.op == "Mod" && node.int_or("fmod", 0) != 0) return "remainder_of";
  return pointwise.function;
}

std::string cast_to(DType dtype) {
  switch (dtype) {
    case DType::kI64:
      return "to_i64";
    case DType::kI32:
      return "to_i32";
    case DType::kI8:
      return "to_i8";
    case DType::kU8:
      return "to_u8";
    case DType::kBool:
      return "to_bool";
    default:
      return "to_float";
  }
}

Result<std::vector<Expression>> operands_of(Builder& builder, const Node& node) {
  std::vector<Expression> operands;
  for (const ValueId input : node.inputs) {
    PENSTOCK_TRY(auto operand, builder.value(input));
    operands.push_back(std::move(operand));
  }
  return operands;
}

/// Of the numbers per channel, the dimensions of an image before them.
Result<Expression> per_channel(Builder& builder, const std::vector<float>& numbers,
                               std::size_t rank) {
  Dims dims(rank, 1);
  dims[1] = static_cast<std::int64_t>(numbers.size());
  Tensor tensor = Tensor::allocate(DType::kF32, dims);
  std::ranges::copy(numbers, tensor.as<float>().begin());
  return builder.new_constant(std::move(tensor));
}

}  // namespace

bool is_pointwise(std::string_view op) {
  return pointwise_of(op) != nullptr || op == "Cast" || op == "Clip" || op == "Where";
}

Status lower_pointwise(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const Pointwise& pointwise = *pointwise_of(node.op);
  PENSTOCK_TRY(const auto operands, operands_of(builder, node));
  if (pointwise.floats && operands.front().dtype != DType::kF32) {
    return unsupported("is computed of f32 only, found ", to_string(operands.front().dtype));
  }
  const ValueId output = node.outputs.front();
  std::vector<std::string> constants;
  for (const auto& [name, otherwise] : pointwise.parameters) {
    if (!name.empty()) constants.push_back(literal(float_or(node, name, otherwise)));
  }
  const auto function = function_of(pointwise, node);
  const DType dtype = builder.dtype(output);
  Expression result = operands.front();
  if (operands.size() == 1) {
    // Of several operands that a sum or maximum may have, the only one.
    if (node.op != "Max" && node.op != "Min" && node.op != "Sum" && node.op != "Mean") {
      result = apply(function, operands, dtype, constants);
    }
  }
  for (std::size_t i = 1; i < operands.size(); ++i) {
    result = apply(function, {result, operands[i]}, dtype, constants);
  }
  if (node.op == "Mean") {
    const auto share = literal(1.0F / static_cast<float>(operands.size()));
    result = apply("mul", {result}, dtype, {share});
  }
  return builder.define(output, std::move(result));
}

Status lower_cast(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId output = node.outputs.front();
  PENSTOCK_TRY(const auto operands, operands_of(builder, node));
  const DType to = builder.dtype(output);
  return builder.define(output, apply(cast_to(to), operands, to));
}

Status lower_clip(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId output = node.outputs.front();
  const DType dtype = builder.dtype(output);
  PENSTOCK_TRY(Expression result, builder.value(node.inputs.front()));
  const auto limit = [&](std::size_t input, const char* attribute,
                         std::string_view function) -> Status {
    if (builder.given(node, input)) {
      PENSTOCK_TRY(const auto bound, builder.value(node.inputs[input]));
      result = apply(function, {result, bound}, dtype);
    } else if (node.find(attribute) != nullptr) {
      result = apply(function, {result}, dtype, {literal(float_or(node, attribute, 0))});
    }
    return {};
  };
  PENSTOCK_CHECK_OK(limit(1, "min", "max_of"));
  PENSTOCK_CHECK_OK(limit(2, "max", "min_of"));
  result = result.broadcast(builder.dims(output));
  return builder.define(output, std::move(result));
}

Status lower_where(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId output = node.outputs.front();
  PENSTOCK_TRY(const auto operands, operands_of(builder, node));
  return builder.define(output, apply("choose", operands, builder.dtype(output)));
}

Status lower_batch_normalization(Builder& builder, NodeId id) {
  const Node& node = builder.graph().node(id);
  const ValueId output = node.outputs.front();
  std::array<std::vector<float>, 4> given;  // Scale, shift, mean, variance.
  for (std::size_t i = 0; i < given.size(); ++i) {
    const Tensor* const tensor = builder.constant(node.inputs[i + 1]);
    if (tensor == nullptr || tensor->dtype() != DType::kF32) {
      return unsupported("takes constant statistics of f32");
    }
    given[i].assign(tensor->as<float>().begin(), tensor->as<float>().end());
  }
  const float epsilon = float_or(node, "epsilon", 1e-5F);
  auto [scale, shift, mean, variance] = std::move(given);
  for (std::size_t c = 0; c < scale.size(); ++c) {
    scale[c] /= std::sqrt(variance[c] + epsilon);
    shift[c] -= mean[c] * scale[c];
  }
  const std::size_t rank = builder.dims(output).size();
  PENSTOCK_TRY(const auto x, builder.value(node.inputs.front()));
  PENSTOCK_TRY(const auto by, per_channel(builder, scale, rank));
  PENSTOCK_TRY(const auto plus, per_channel(builder, shift, rank));
  return builder.define(output, apply("scaled", {x, by, plus}, DType::kF32));
}

}  // namespace penstock::cuda
