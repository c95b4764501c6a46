// Tensors and numpy's arrays: each way without a copy where the memory allows it.
#pragma once

#include <memory>
#include <string>

#include <nanobind/nanobind.h>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::python {

namespace nb = nanobind;

/// numpy's name of a dtype ("float32"), ml_dtypes' where numpy has none; empty for packed kinds.
std::string numpy_name(DType dtype);

/// Whether the value is an array with a mask (numpy.ma), which as a tensor it would lose.
bool has_mask(nb::handle value);

/// The memory of an array as a tensor that holds it: of any object with the buffer protocol or
/// DLPack. Strings are copied.
/// \error kInvalidArgument  not such an object, another dtype or shape, not C-contiguous, not in
///                          the CPU's memory: says what was expected, what found, what to do.
Result<Tensor> from_python(nb::handle value, const plan::TensorInfo& input);

/// A numpy array over the tensor's memory, which `owner` keeps. Strings are an array of objects, a
/// sequence a list, an absent optional None.
/// \error kUnimplemented  numpy has no form of it.
Result<nb::object> to_python(const Tensor& tensor, nb::handle owner, const std::string& name);

/// An object that owns what `value` owns, for to_python().
nb::object make_owner(std::shared_ptr<const void> value);

}  // namespace penstock::python
