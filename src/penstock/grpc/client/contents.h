// Tensors as lists of numbers in messages: the other form that the protocol has besides raw bytes.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/grpc/inference.pb.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

/// \error kInvalidArgument  other than as many elements as `dims` says in the field for `dtype`,
///                          elements in another field, or a type that has no field.
Result<Tensor> read_contents(const inference::InferTensorContents& contents, DType dtype,
                             const std::vector<std::int64_t>& dims);

}  // namespace penstock::grpc
