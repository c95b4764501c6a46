// Element by element: operators whose outputs stand where their operands do.
#include <numeric>

#include "penstock/graph/frame_rules.h"

namespace penstock::graph {
namespace {

std::vector<std::size_t> all_inputs(const FrameSite& site) {
  std::vector<std::size_t> all(site.inputs());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

Status broadcast_all(FrameSite& site) {
  return broadcast(site, all_inputs(site));
}

/// Quantised sums and products: the operands stand between their scales and zero points.
Status broadcast_quantised(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 3}));
  return broadcast(site, {0, 3});
}

Status cast_like(FrameSite& site) {
  site.give(0, site.axis(0));
  return {};
}

Status dropout(FrameSite& site) {
  if (site.has_input(2)) return site.refuse("it may be training");
  return elementwise(site);
}

/// Scales of the whole tensor, or along another axis than that of the frames.
Status quantise(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto scale = site.sizes(1);
  if (scale.size() > 1) return site.refuse("its scales are of blocks");
  if (product_of(scale, 0, scale.size()) != 1) {
    const auto axis = wrapped(site.node().int_or("axis", 1), site.sizes(0).size());
    PENSTOCK_CHECK_OK(keep_off(site, {axis}));
  }
  site.give(0, site.axis(0));
  return {};
}

}  // namespace

void add_elementwise_rules(FrameRules& rules) {
  add_rule(rules, elementwise,
           {"Abs",
            "Acos",
            "Acosh",
            "Asin",
            "Asinh",
            "Atan",
            "Atanh",
            "BitwiseNot",
            "Cast",
            "Ceil",
            "Celu",
            "Clip",
            "Cos",
            "Cosh",
            "Elu",
            "Erf",
            "Exp",
            "Floor",
            "Gelu",
            "HardSigmoid",
            "HardSwish",
            "Identity",
            "IsInf",
            "IsNaN",
            "LeakyRelu",
            "Log",
            "Mish",
            "Neg",
            "Not",
            "Reciprocal",
            "Relu",
            "Round",
            "Selu",
            "Shrink",
            "Sigmoid",
            "Sign",
            "Sin",
            "Sinh",
            "Softplus",
            "Softsign",
            "Sqrt",
            "Swish",
            "Tan",
            "Tanh",
            "ThresholdedRelu",
            "com.microsoft.Gelu",
            "com.microsoft.QLinearLeakyRelu",
            "com.microsoft.QLinearSigmoid",
            "com.microsoft.QuickGelu"});
  add_rule(rules, broadcast_all,
           {"Add",
            "And",
            "BitShift",
            "BitwiseAnd",
            "BitwiseOr",
            "BitwiseXor",
            "Div",
            "Equal",
            "Greater",
            "GreaterOrEqual",
            "Less",
            "LessOrEqual",
            "Max",
            "Mean",
            "Min",
            "Mod",
            "Mul",
            "Or",
            "PRelu",
            "Pow",
            "Sub",
            "Sum",
            "Where",
            "Xor",
            "com.microsoft.BiasGelu",
            "com.microsoft.FastGelu"});
  add_rule(rules, broadcast_quantised, {"com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"});
  add_rule(rules, cast_like, {"CastLike"});
  add_rule(rules, dropout, {"Dropout"});
  add_rule(rules, quantise, {"DequantizeLinear", "QuantizeLinear"});
}

}  // namespace penstock::graph
