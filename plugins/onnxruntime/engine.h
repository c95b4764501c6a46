// Engine: the ONNX Runtime that was found, its C API, and its errors as ours.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include <onnxruntime_c_api.h>

#include "penstock/base/result.h"
#include "penstock/tensor/dtype.h"

namespace penstock::ort {

/// Owns one of ONNX Runtime's objects.
template <typename T>
struct Releaser {
  void(ORT_API_CALL* release)(T*) = nullptr;
  void operator()(T* object) const { release(object); }
};
template <typename T>
using Handle = std::unique_ptr<T, Releaser<T>>;

/// A loaded ONNX Runtime. Never unloaded: its threads and values may outlive every caller.
struct Engine {
  const OrtApi* api = nullptr;
  std::filesystem::path file;         ///< The library that was taken.
  std::string version;                ///< "1.31.1"
  int minor = 0;                      ///< 31
  OrtEnv* env = nullptr;              ///< The process's only one.
  Handle<OrtMemoryInfo> host;         ///< Names host memory.
  OrtAllocator* allocator = nullptr;  ///< The default one, owned by ONNX Runtime.

  /// Takes the status over.
  [[nodiscard]] Status check(OrtStatus* status) const;
};

/// Finds and loads it. \error kUnavailable  every place tried, and what to do.
Result<std::shared_ptr<const Engine>> load_engine();

/// ONNX Runtime numbers the element types as ONNX does, but for the last three.
DType from_engine(ONNXTensorElementDataType type);
ONNXTensorElementDataType to_engine(DType dtype);

/// ONNX Runtime's code and text as an Error: first line only, its source locations cut off.
Error translate(OrtErrorCode code, std::string_view text);

}  // namespace penstock::ort
