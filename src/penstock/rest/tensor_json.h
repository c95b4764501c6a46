// Tensors as JSON: numbers, strings, true and false, nested or flat.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/rest/json.h"
#include "penstock/tensor/tensor.h"

namespace penstock::rest {

/// `data`: all elements in one list, or lists within lists as `dims` says.
/// \error kInvalidArgument  too few or too many elements, a list of another size than its
/// dimension, an element that is of another kind or does not fit, a type that JSON cannot hold.
Result<Tensor> tensor_of(const Array& data, DType dtype, std::vector<std::int64_t> dims);

/// Appends the elements, flat: "[1,2]".
/// \error kInvalidArgument  an element that JSON cannot hold: NaN, infinity, text that is not
/// UTF-8.
Status append_data(const Tensor& tensor, std::string& json);

}  // namespace penstock::rest
