// Values of Penstock as messages of worker.proto, and back. For either end.
#pragma once

#include <cstdint>
#include <vector>

#include <google/protobuf/repeated_field.h>
#include <grpcpp/support/status.h>

#include "penstock/base/result.h"
#include "penstock/grpc/worker.pb.h"
#include "penstock/tensor/tensor.h"

namespace penstock::grpc {

void write(const Error& error, worker::Error& message);
/// What makes no sense is left out: the other end may be newer. Codes that are none are kUnknown.
Error read(const worker::Error& message);

/// With the error as its details.
::grpc::Status to_worker_status(const Error& error);
/// \pre  !status.ok(). Of another server: its code and message.
Error read_status(const ::grpc::Status& status);

/// \pre  type.kind == kTensor
void write(const Type& type, worker::Type& message);
/// \error kInvalidArgument  no type, or of more dimensions than there may be.
Result<Type> read(const worker::Type& message);

using Dims = google::protobuf::RepeatedField<std::int64_t>;
/// \error kInvalidArgument  negative or too many sizes, or more elements than any memory holds.
Result<std::vector<std::int64_t>> read_dims(const Dims& dims);
/// \error kInvalidArgument  the number is none of those that can be carried.
Result<DType> read_dtype(std::int32_t number);

}  // namespace penstock::grpc
