// Loads libcuda.so.1 and asks it for its devices.
#include "driver.h"

#include <algorithm>
#include <array>

#include "symbols.h"

namespace penstock::cuda {
namespace {

Status find_functions(const backend::LoadedLibrary& library, Driver& driver) {
#define PENSTOCK_CUDA_FIND_DRIVER(name, symbol, parameters) \
  PENSTOCK_CHECK_OK(find_symbol(library, symbol, driver.name));
  PENSTOCK_CUDA_DRIVER_FUNCTIONS(PENSTOCK_CUDA_FIND_DRIVER)
#undef PENSTOCK_CUDA_FIND_DRIVER
  return {};
}

}  // namespace

bool is_loss(DriverResult result) {
  // Unavailable, none, ECC, NVLink, illegal address, timeout, destroyed context, assert, stack,
  // illegal instruction, misaligned, address space, program counter, failed launch, unknown.
  constexpr std::array kLosses = {46,  100, 214, 220, 700, 702, 709, 710,
                                  714, 715, 716, 717, 718, 719, 999};
  return std::ranges::find(kLosses, result) != kLosses.end();
}

Status Driver::check(DriverResult result, std::string_view doing) const {
  if (result == kSuccess) return {};
  const char* name = nullptr;
  if (error_name(result, &name) != kSuccess || name == nullptr) name = "unknown error";
  auto code = is_loss(result) ? Code::kUnavailable : Code::kUnknown;
  if (result == kErrorOutOfMemory) code = Code::kResourceExhausted;
  return make_error(code, "the CUDA driver: ", doing, ": ", name, " (", result, ")");
}

Result<std::shared_ptr<const Driver>> load_driver() {
  const auto library = backend::LoadedLibrary::open("libcuda.so.1");
  if (!library) {
    return make_error(Code::kUnavailable, "no NVIDIA driver found: ", library.error().message(),
                      "; install the driver of an NVIDIA GPU, or run on a machine that has one");
  }
  auto driver = std::make_shared<Driver>();
  PENSTOCK_CHECK_OK(find_functions(*library, *driver));
  if (auto begun = driver->check(driver->init(0), "initialisation"); !begun) {
    return make_error(Code::kUnavailable, begun.error().message(),
                      "; see whether `nvidia-smi` shows a GPU here");
  }
  PENSTOCK_CHECK_OK(driver->check(driver->driver_version(&driver->version), "version"));
  PENSTOCK_CHECK_OK(driver->check(driver->device_count(&driver->devices), "devices"));
  if (driver->devices < 1) {
    return make_error(Code::kUnavailable,
                      "the NVIDIA driver shows no GPU; see `nvidia-smi` and "
                      "CUDA_VISIBLE_DEVICES");
  }
  return std::shared_ptr<const Driver>(std::move(driver));
}

}  // namespace penstock::cuda
