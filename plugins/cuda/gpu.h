// Gpu: one device of this process, what was compiled for it, its libraries and its memory.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "libraries.h"
#include "penstock/base/result.h"

namespace penstock::cuda {

/// The driver and NVRTC: what every part needs.
struct Toolchain {
  std::shared_ptr<const Driver> driver;
  std::shared_ptr<const Nvrtc> nvrtc;
  std::string version;         ///< Of NVRTC: "13.0".
  std::filesystem::path file;  ///< NVRTC's.
};

Result<std::shared_ptr<const Toolchain>> load_toolchain();

/// Storage on a device or, pinned, in the host's memory. Freed with the last copy.
using DeviceStorage = std::shared_ptr<const DevicePointer>;
using PinnedStorage = std::shared_ptr<std::byte>;

/// One for each ordinal and process, kept for ever: its streams and values may outlive all else.
/// \threads  any, but for the libraries' handles, which need `mutex`.
class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  /// \error kNotFound     no such device: how many there are.
  /// \error kUnavailable  the device does not answer.
  static Result<std::shared_ptr<Gpu>> get(const std::shared_ptr<const Toolchain>& toolchain,
                                          int ordinal);

  [[nodiscard]] const Driver& driver() const { return *toolchain_->driver; }
  [[nodiscard]] int ordinal() const { return ordinal_; }
  [[nodiscard]] const std::string& name() const { return name_; }  ///< "NVIDIA H100 80GB HBM3"
  [[nodiscard]] const std::string& architecture() const { return architecture_; }
  [[nodiscard]] int multiprocessors() const { return multiprocessors_; }

  /// Makes it the calling thread's. Cheap.
  Status use();
  /// As Driver::check(); remembers that the device is lost.
  Status check(DriverResult result, std::string_view doing);
  [[nodiscard]] bool is_lost() const { return lost_; }

  /// The function `kernel` of the text. Equal texts are compiled once.
  Result<Function> kernel(const std::string& source);

  struct Products {
    const CublasLt* api = nullptr;
    LtHandle handle = nullptr;
  };
  struct Convolutions {
    const Cudnn* api = nullptr;
    DnnHandle handle = nullptr;
  };
  /// Loaded for the first who asks. \error kUnavailable  as load_cublaslt() and load_cudnn()
  Result<Products> products();
  Result<Convolutions> convolutions();

  /// \error kResourceExhausted  says how much was asked for.
  Result<DeviceStorage> allocate(std::size_t bytes);
  Result<PinnedStorage> allocate_pinned(std::size_t bytes);

  /// Held while a library's handle is used.
  std::mutex mutex;

 private:
  Gpu(std::shared_ptr<const Toolchain> toolchain, int ordinal)
      : toolchain_(std::move(toolchain)), ordinal_(ordinal) {}
  Status open();

  std::shared_ptr<const Toolchain> toolchain_;
  int ordinal_;
  int multiprocessors_ = 1;
  DriverContext context_ = nullptr;
  std::string name_, architecture_;
  std::atomic<bool> lost_{false};
  std::mutex cache_mutex_;  // Guards all below.
  std::map<std::string, Function> kernels_;
  std::shared_ptr<const CublasLt> cublaslt_;
  std::shared_ptr<const Cudnn> cudnn_;
  LtHandle lt_handle_ = nullptr;
  DnnHandle dnn_handle_ = nullptr;
};

}  // namespace penstock::cuda
