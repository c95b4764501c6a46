// DeviceMemory: a GPU's memory as tensors may lie in it.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "gpu.h"
#include "penstock/backend/backend.h"

namespace penstock::cuda {

/// "cuda:N". Runs take the host's tensors too: they bring them there and back on their own streams,
/// so that an edge to or from the host's memory costs its stage no time.
class DeviceMemory final : public backend::Memory {
 public:
  using Open = std::function<Result<std::shared_ptr<Gpu>>()>;

  /// `open` is asked when memory is needed first.
  DeviceMemory(int ordinal, Open open) : ordinal_(ordinal), open_(std::move(open)) {}

  [[nodiscard]] std::string name() const override { return concat("cuda:", ordinal_); }
  Result<Tensor> allocate(DType dtype, std::size_t bytes) override;
  Status copy(const Tensor& from, Tensor& to) override;
  [[nodiscard]] bool copies_from(const backend::Memory& other) const override {
    return other.name() == name();
  }
  [[nodiscard]] bool reaches_host() const override { return true; }

 private:
  int ordinal_;
  Open open_;
};

}  // namespace penstock::cuda
