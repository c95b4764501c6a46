// The classification extension: the highest values of an output, as "VALUE:INDEX".
#pragma once

#include <cstdint>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::serve {

/// Strings of the `most` highest elements, or of all where there are fewer, the highest first; of
/// equal ones the lower index first. Integers are compared and written exactly, floats written so
/// that they read back the same. NaN counts as higher than every number, as in numpy's order, and
/// is written "nan": what went wrong in a network is not hidden behind other classes.
/// \error kInvalidArgument  the tensor holds strings.
Result<Tensor> classify(const Tensor& tensor, std::uint64_t most);

}  // namespace penstock::serve
