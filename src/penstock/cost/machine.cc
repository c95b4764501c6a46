// Asks a Profiler for the peaks of one CPU of each distinct device key, then of all CPUs together.
#include "penstock/cost/machine.h"

#include <set>
#include <string>
#include <utility>

#include "penstock/cost/part_keys.h"
#include "penstock/cost/profiler.h"
#include "penstock/device/place.h"

namespace penstock::cost {

Result<std::vector<DevicePeaks>> peaks_of_machine(const backend::Registry& backends,
                                                  Database& database, bool refresh,
                                                  std::function<bool()> stop) {
  Profiler::Options options;
  options.refresh = refresh;
  options.stop = std::move(stop);
  PENSTOCK_TRY(const auto profiler, Profiler::start(backends, &database, options));
  const auto& topology = profiler->topology();
  device::Device all;
  all.cpus = device::allowed_cpus(topology);
  std::vector<DevicePeaks> machine;
  std::set<std::string> known;
  const auto add = [&](const device::Device& device) -> Status {
    if (!known.insert(device_key(topology, device)).second) return {};
    PENSTOCK_TRY(auto peaks, profiler->peaks(device));
    if (!peaks && profiler->over()) {
      return make_error(Code::kCancelled, "device '", to_string(device),
                        "': what it could do at most was not measured");
    }
    if (!peaks) return internal_error("device ", to_string(device), ": its peaks were not told");
    machine.push_back({device, *std::move(peaks)});
    return {};
  };
  for (const int cpu : all.cpus) {
    device::Device one;
    one.cpus = {cpu};
    PENSTOCK_CHECK_OK(add(one));
  }
  PENSTOCK_CHECK_OK(add(all));
  return machine;
}

}  // namespace penstock::cost
