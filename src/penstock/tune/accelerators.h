// Accelerators: devices with memory of their own that a build is told to use beside CPUs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/device/device.h"
#include "penstock/tune/build.h"
#include "penstock/tune/parts.h"
#include "penstock/tune/way.h"

namespace penstock::tune {

/// Those that are alike: of one name, and run by the same backends.
struct Accelerators {
  std::vector<device::Device> devices;  ///< What is measured runs on the first.
  std::string name;                     ///< Backend::device_name(); empty: it has none.
  std::vector<Way> ways;                ///< Those that run there.
  std::optional<Parts> parts;           ///< Measured there, by these ways; made by prepare().
};

/// What was asked for, each device found to be there: some of its memory could be had. Backends
/// that have none of it are left out, which `notes` tell.
/// \error kFailedPrecondition  no backend that may be chosen runs on it
///        kUnavailable          it is not there; the message tells what each backend says
Result<std::vector<Accelerators>> find_accelerators(const std::vector<device::Device>& devices,
                                                    const Options& options,
                                                    const backend::Registry& backends,
                                                    std::vector<std::string>& notes);

/// As part of what results are kept by: "cuda:0 NAME by BACKEND,"; empty: there are none.
std::string text_of(const std::vector<Accelerators>& accelerators);

}  // namespace penstock::tune
