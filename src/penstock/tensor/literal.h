// Tensors written as text: "16000", "[1, 2.5]", "[[true, false]]".
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock {

/// A tensor of `type` from one value, or from a list of values in brackets, with lists in it for
/// further dimensions. One value fills a fixed shape, and so does a flat list of as many values as
/// the shape has. Booleans are true and false; texts are in double quotes, in which
/// \" and \\ stand for a quote and a backslash, or without any.
/// \error kInvalidArgument  not such a text, a value that the element type cannot hold, or another
///                          shape: says what was expected and found.
Result<Tensor> parse_literal(std::string_view text, const Type& type);

/// A text of which parse_literal() makes this very tensor, given its type. Nothing where there is
/// none (texts, complex numbers, infinities), or where it would list more than 16 values.
std::optional<std::string> literal_of(const Tensor& tensor);

}  // namespace penstock
