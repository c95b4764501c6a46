// What this machine can do at most.
#pragma once

#include <functional>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/cost/peaks.h"
#include "penstock/device/device.h"

namespace penstock::cost {

struct DevicePeaks {
  device::Device device;
  Peaks peaks;
};

/// Of one CPU of each kind that the process may use, then of all of these together; from the
/// database, or measured now and kept there; with `refresh` always measured. `stop`, asked ten
/// times a second, ends it where it says true.
/// \error kCancelled  `stop` came first; those of Profiler::start() and Profiler::peaks()
Result<std::vector<DevicePeaks>> peaks_of_machine(const backend::Registry& backends,
                                                  Database& database, bool refresh,
                                                  std::function<bool()> stop = nullptr);

}  // namespace penstock::cost
