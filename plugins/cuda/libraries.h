// Libraries: NVRTC, cuBLASLt and cuDNN, found when something needs them; their functions by name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "driver.h"
#include "penstock/base/result.h"

namespace penstock::cuda {

// Handles, structures and numbers as the libraries' documentation gives them.
using NvrtcProgram = struct _nvrtcProgram*;
using LtHandle = struct cublasLtContext*;
using LtDescriptor = void*;  ///< Of a product, a matrix or a preference.
using DnnHandle = struct cudnnContext*;
using DnnDescriptor = void*;

struct LtAlgorithm {
  std::uint64_t data[8];
};
struct LtHeuristic {
  LtAlgorithm algorithm;
  std::size_t workspace_bytes;
  int status;
  float waves;
  int reserved[4];
};
struct DnnPerformance {
  int algorithm;
  int status;
  float time_ms;
  std::size_t workspace_bytes;
  int determinism;
  int math_type;
  int reserved[3];
};

// clang-format off
#define PENSTOCK_NVRTC_FUNCTIONS(X) \
  X(version, "nvrtcVersion", (int*, int*)) \
  X(create, "nvrtcCreateProgram", (NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  X(compile, "nvrtcCompileProgram", (NvrtcProgram, int, const char* const*)) \
  X(log_size, "nvrtcGetProgramLogSize", (NvrtcProgram, std::size_t*)) \
  X(log, "nvrtcGetProgramLog", (NvrtcProgram, char*)) \
  X(code_size, "nvrtcGetCUBINSize", (NvrtcProgram, std::size_t*)) \
  X(code, "nvrtcGetCUBIN", (NvrtcProgram, char*)) \
  X(destroy, "nvrtcDestroyProgram", (NvrtcProgram*))

#define PENSTOCK_CUBLASLT_FUNCTIONS(X) \
  X(create, "cublasLtCreate", (LtHandle*)) \
  X(create_product, "cublasLtMatmulDescCreate", (LtDescriptor*, int, int)) \
  X(destroy_product, "cublasLtMatmulDescDestroy", (LtDescriptor)) \
  X(set_product, "cublasLtMatmulDescSetAttribute", (LtDescriptor, int, const void*, std::size_t)) \
  X(create_matrix, "cublasLtMatrixLayoutCreate", (LtDescriptor*, int, std::uint64_t, std::uint64_t, std::int64_t)) \
  X(destroy_matrix, "cublasLtMatrixLayoutDestroy", (LtDescriptor)) \
  X(set_matrix, "cublasLtMatrixLayoutSetAttribute", (LtDescriptor, int, const void*, std::size_t)) \
  X(create_preference, "cublasLtMatmulPreferenceCreate", (LtDescriptor*)) \
  X(destroy_preference, "cublasLtMatmulPreferenceDestroy", (LtDescriptor)) \
  X(set_preference, "cublasLtMatmulPreferenceSetAttribute", (LtDescriptor, int, const void*, std::size_t)) \
  X(heuristics, "cublasLtMatmulAlgoGetHeuristic", (LtHandle, LtDescriptor, LtDescriptor, LtDescriptor, LtDescriptor, \
      LtDescriptor, LtDescriptor, int, LtHeuristic*, int*)) \
  X(multiply, "cublasLtMatmul", (LtHandle, LtDescriptor, const void*, const void*, LtDescriptor, const void*, LtDescriptor, \
      const void*, const void*, LtDescriptor, void*, LtDescriptor, const LtAlgorithm*, void*, std::size_t, Stream))

#define PENSTOCK_CUDNN_FUNCTIONS(X) \
  X(create, "cudnnCreate", (DnnHandle*)) \
  X(set_stream, "cudnnSetStream", (DnnHandle, Stream)) \
  X(create_tensor, "cudnnCreateTensorDescriptor", (DnnDescriptor*)) \
  X(set_tensor, "cudnnSetTensorNdDescriptor", (DnnDescriptor, int, int, const int*, const int*)) \
  X(destroy_tensor, "cudnnDestroyTensorDescriptor", (DnnDescriptor)) \
  X(create_filter, "cudnnCreateFilterDescriptor", (DnnDescriptor*)) \
  X(set_filter, "cudnnSetFilterNdDescriptor", (DnnDescriptor, int, int, int, const int*)) \
  X(destroy_filter, "cudnnDestroyFilterDescriptor", (DnnDescriptor)) \
  X(create_convolution, "cudnnCreateConvolutionDescriptor", (DnnDescriptor*)) \
  X(set_convolution, "cudnnSetConvolutionNdDescriptor", (DnnDescriptor, int, const int*, const int*, const int*, int, int)) \
  X(set_groups, "cudnnSetConvolutionGroupCount", (DnnDescriptor, int)) \
  X(set_math, "cudnnSetConvolutionMathType", (DnnDescriptor, int)) \
  X(destroy_convolution, "cudnnDestroyConvolutionDescriptor", (DnnDescriptor)) \
  X(create_activation, "cudnnCreateActivationDescriptor", (DnnDescriptor*)) \
  X(set_activation, "cudnnSetActivationDescriptor", (DnnDescriptor, int, int, double)) \
  X(destroy_activation, "cudnnDestroyActivationDescriptor", (DnnDescriptor)) \
  X(workspace, "cudnnGetConvolutionForwardWorkspaceSize", (DnnHandle, DnnDescriptor, DnnDescriptor, DnnDescriptor, \
      DnnDescriptor, int, std::size_t*)) \
  X(convolve, "cudnnConvolutionForward", (DnnHandle, const void*, DnnDescriptor, const void*, DnnDescriptor, const void*, \
      DnnDescriptor, int, void*, std::size_t, const void*, DnnDescriptor, void*)) \
  X(convolve_fused, "cudnnConvolutionBiasActivationForward", (DnnHandle, const void*, DnnDescriptor, const void*, \
      DnnDescriptor, const void*, DnnDescriptor, int, void*, std::size_t, const void*, DnnDescriptor, const void*, \
      DnnDescriptor, const void*, DnnDescriptor, DnnDescriptor, void*))
// clang-format on

// NOLINTBEGIN(bugprone-macro-parentheses): they declare
#define PENSTOCK_CUDA_MEMBER(name, symbol, parameters) int(*name) parameters = nullptr;
struct Nvrtc {
  PENSTOCK_NVRTC_FUNCTIONS(PENSTOCK_CUDA_MEMBER)
  std::filesystem::path file;  ///< The library that was taken.
  std::string version_text;    ///< "13.0"
};
struct CublasLt {
  PENSTOCK_CUBLASLT_FUNCTIONS(PENSTOCK_CUDA_MEMBER)
};
struct Cudnn {
  PENSTOCK_CUDNN_FUNCTIONS(PENSTOCK_CUDA_MEMBER)
};
#undef PENSTOCK_CUDA_MEMBER
// NOLINTEND(bugprone-macro-parentheses)

/// \error kUnavailable  every place tried, and what to do. They are never unloaded.
Result<std::shared_ptr<const Nvrtc>> load_nvrtc();
Result<std::shared_ptr<const CublasLt>> load_cublaslt();
/// After the two others: cuDNN takes those that are in the process.
Result<std::shared_ptr<const Cudnn>> load_cudnn();

/// \error kUnknown, or kUnimplemented where a library refuses; names the library and the status.
Status check_library(int status, std::string_view library, std::string_view doing);

}  // namespace penstock::cuda
