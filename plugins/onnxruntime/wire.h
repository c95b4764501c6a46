// The few ONNX messages this plugin writes, in protobuf's wire format (no protobuf library needed).
#pragma once

#include <string>
#include <string_view>

#include <onnxruntime_c_api.h>

#include "engine.h"
#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::ort {

/// The Type of an input or output. Rank 0 may be a scalar or an unknown rank: ONNX Runtime does
/// not say which, so it is left unranked.
Result<Type> read_type(const Engine& engine, const OrtTypeInfo& info);

/// Whether `onnx`, a serialised TypeProto, is an optional.
bool is_optional(std::string_view onnx);

/// A model without inputs whose one output, "value", is an empty sequence of the type `onnx` (a
/// sequence of tensors, or an optional one). Empty if the type is neither.
std::string model_of_empty_sequence(std::string_view onnx);

}  // namespace penstock::ort
