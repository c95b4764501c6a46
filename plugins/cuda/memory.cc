// Allocates and copies; the driver stages what does not lie in pinned memory.
#include "memory.h"

#include <algorithm>

namespace penstock::cuda {

Result<Tensor> DeviceMemory::allocate(DType dtype, std::size_t bytes) {
  PENSTOCK_TRY(const auto gpu, open_());
  PENSTOCK_TRY(const auto storage, gpu->allocate(std::max<std::size_t>(bytes, 1)));
  return Tensor::reserve_in(static_cast<MemoryDomain>(ordinal_ + 1), dtype, bytes,
                            reinterpret_cast<void*>(*storage), storage);
}

Status DeviceMemory::copy(const Tensor& from, Tensor& to) {
  PENSTOCK_TRY(const auto gpu, open_());
  PENSTOCK_CHECK_OK(gpu->use());
  const Driver& driver = gpu->driver();
  Stream stream = nullptr;
  PENSTOCK_CHECK_OK(gpu->check(driver.create_stream(&stream, kStreamNonBlocking), "stream"));
  const std::shared_ptr<CUstream_st> owned(stream, driver.destroy_stream);
  const auto there = [](const Tensor& tensor) {
    return reinterpret_cast<DevicePointer>(tensor.data());
  };
  DriverResult copied = kSuccess;
  if (from.in_host_memory()) {
    copied = driver.copy_to_device(there(to), from.data(), from.bytes(), stream);
  } else if (to.in_host_memory()) {
    copied = driver.copy_to_host(to.data(), there(from), from.bytes(), stream);
  } else {
    copied = driver.copy_on_device(there(to), there(from), from.bytes(), stream);
  }
  PENSTOCK_CHECK_OK(gpu->check(copied, "copy"));
  return gpu->check(driver.synchronize_stream(stream), "copy");
}

}  // namespace penstock::cuda
