// Padding, for the operator and for convolutions whose pads differ.
#pragma once

#include <string>

#include "builder.h"

namespace penstock::cuda {

/// `value` with elements around it, in `target`, which it returns. `before`: how many in front of
/// each dimension; what follows is told by the target's size.
/// `mode`: ONNX's; `filling` is for "constant", one element, zero where it is not given.
Result<Expression> padded(Builder& builder, const Expression& value, const Dims& before,
                          const Expression& target, const std::string& mode = "constant",
                          const std::optional<Expression>& filling = {});

}  // namespace penstock::cuda
