// Driver: NVIDIA's driver library, found when the program runs; its functions, and its errors as
// ours.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "penstock/base/result.h"

namespace penstock::cuda {

// The driver's own handles and numbers, as its documentation gives them: no header of it is needed.
using DriverResult = int;
using DevicePointer = unsigned long long;
using DriverContext = struct CUctx_st*;
using Module = struct CUmod_st*;
using Function = struct CUfunc_st*;
using Stream = struct CUstream_st*;
using Event = struct CUevent_st*;
using CapturedGraph = struct CUgraph_st*;
using GraphExec = struct CUgraphExec_st*;

inline constexpr DriverResult kSuccess = 0;
inline constexpr DriverResult kErrorOutOfMemory = 2;
inline constexpr DriverResult kErrorNotReady = 600;

/// Whether it says that the device, or the process's use of it, is gone for good.
bool is_loss(DriverResult result);

inline constexpr int kAttributeMultiprocessors = 16;
inline constexpr int kAttributeCapabilityMajor = 75;
inline constexpr int kAttributeCapabilityMinor = 76;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventBlockingSync = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr unsigned kHostAllocPortable = 1;

// X(member, symbol, parameters): those that this plugin calls.
// clang-format off
#define PENSTOCK_CUDA_DRIVER_FUNCTIONS(X) \
  X(init, "cuInit", (unsigned)) \
  X(driver_version, "cuDriverGetVersion", (int*)) \
  X(error_name, "cuGetErrorName", (DriverResult, const char**)) \
  X(device_count, "cuDeviceGetCount", (int*)) \
  X(device, "cuDeviceGet", (int*, int)) \
  X(device_name, "cuDeviceGetName", (char*, int, int)) \
  X(device_attribute, "cuDeviceGetAttribute", (int*, int, int)) \
  X(retain_context, "cuDevicePrimaryCtxRetain", (DriverContext*, int)) \
  X(set_context, "cuCtxSetCurrent", (DriverContext)) \
  X(allocate, "cuMemAlloc_v2", (DevicePointer*, std::size_t)) \
  X(free, "cuMemFree_v2", (DevicePointer)) \
  X(allocate_host, "cuMemHostAlloc", (void**, std::size_t, unsigned)) \
  X(free_host, "cuMemFreeHost", (void*)) \
  X(copy_to_device, "cuMemcpyHtoDAsync_v2", (DevicePointer, const void*, std::size_t, Stream)) \
  X(copy_to_host, "cuMemcpyDtoHAsync_v2", (void*, DevicePointer, std::size_t, Stream)) \
  X(copy_on_device, "cuMemcpyDtoDAsync_v2", (DevicePointer, DevicePointer, std::size_t, Stream)) \
  X(fill_bytes, "cuMemsetD8Async", (DevicePointer, unsigned char, std::size_t, Stream)) \
  X(create_stream, "cuStreamCreate", (Stream*, unsigned)) \
  X(destroy_stream, "cuStreamDestroy_v2", (Stream)) \
  X(synchronize_stream, "cuStreamSynchronize", (Stream)) \
  X(create_event, "cuEventCreate", (Event*, unsigned)) \
  X(destroy_event, "cuEventDestroy_v2", (Event)) \
  X(record_event, "cuEventRecord", (Event, Stream)) \
  X(query_event, "cuEventQuery", (Event)) \
  X(synchronize_event, "cuEventSynchronize", (Event)) \
  X(elapsed, "cuEventElapsedTime", (float*, Event, Event)) \
  X(begin_capture, "cuStreamBeginCapture_v2", (Stream, int)) \
  X(end_capture, "cuStreamEndCapture", (Stream, CapturedGraph*)) \
  X(instantiate, "cuGraphInstantiateWithFlags", (GraphExec*, CapturedGraph, unsigned long long)) \
  X(launch_graph, "cuGraphLaunch", (GraphExec, Stream)) \
  X(destroy_graph, "cuGraphDestroy", (CapturedGraph)) \
  X(destroy_graph_exec, "cuGraphExecDestroy", (GraphExec)) \
  X(load_module, "cuModuleLoadData", (Module*, const void*)) \
  X(module_function, "cuModuleGetFunction", (Function*, Module, const char*)) \
  X(launch, "cuLaunchKernel", (Function, unsigned, unsigned, unsigned, unsigned, unsigned, \
                               unsigned, unsigned, Stream, void**, void**))
// clang-format on

/// The loaded library, initialised. Never unloaded.
struct Driver {
// NOLINTNEXTLINE(bugprone-macro-parentheses): it declares
#define PENSTOCK_CUDA_MEMBER(name, symbol, parameters) DriverResult(*name) parameters = nullptr;
  PENSTOCK_CUDA_DRIVER_FUNCTIONS(PENSTOCK_CUDA_MEMBER)
#undef PENSTOCK_CUDA_MEMBER

  int version = 0;  ///< 13000: CUDA 13.0.
  int devices = 0;  ///< At least one.

  /// Names what was being done and the driver's word for what became of it.
  /// \error kResourceExhausted  no memory.
  /// \error kUnavailable        is_loss()
  /// \error kUnknown            anything else.
  [[nodiscard]] Status check(DriverResult result, std::string_view doing) const;
};

/// Opened by the first who asks. \error kUnavailable  no driver, or no device; and what to do.
Result<std::shared_ptr<const Driver>> load_driver();

}  // namespace penstock::cuda
