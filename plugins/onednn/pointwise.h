// Operators that treat each element alone.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chain.h"

namespace penstock::onednn {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// A node as functions of one of its inputs, its others being constant scalars.
struct Unary {
  ValueId input = ValueId::kNone;
  std::vector<PostOp> ops;
};

std::optional<Unary> unary_of(const Builder& builder, const Node& node);

/// The algorithm of Add, Sub, Mul, Div, Max and Min.
std::optional<dnnl_alg_kind_t> binary_algorithm(std::string_view op);

using lower::float_or;
using lower::string_or;

}  // namespace penstock::onednn
