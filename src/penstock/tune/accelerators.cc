// Asks each backend for a little of a device's memory, and puts devices that are alike together.
#include "penstock/tune/accelerators.h"

#include <algorithm>
#include <utility>

namespace penstock::tune {
namespace {

/// Whether the backend finds the device. \error why not
Status look_for(const backend::Backend& backend, const device::Device& device) {
  const auto memory = backend.memory(device);
  if (!memory) return {};  // It works in the host's; compiling tells the rest.
  const auto some = memory->allocate(DType::kF32, sizeof(float));
  return some ? Status() : Status(some.error());
}

/// One device, with what runs there.
Result<Accelerators> find(const device::Device& device, const Options& options,
                          const backend::Registry& backends, std::vector<std::string>& notes) {
  Accelerators found;
  found.devices = {device};
  PENSTOCK_TRY(found.ways, usable_ways(options, backends, device, notes));
  std::string reasons;
  for (auto way = found.ways.begin(); way != found.ways.end();) {
    PENSTOCK_TRY(const auto backend, backends.find(way->backend));
    const auto looked = look_for(*backend, device);
    if (looked) {
      if (found.name.empty()) found.name = backend->device_name(device);
      ++way;
      continue;
    }
    reasons += concat("; ", way->name(), ": ", looked.error().message());
    way = found.ways.erase(way);
  }
  if (found.ways.empty()) {
    return make_error(Code::kUnavailable, "device '", device::to_string(device),
                      "' is not there; leave it out of the devices", reasons);
  }
  if (!reasons.empty()) {
    notes.push_back(concat("left out on '", device::to_string(device), "'", reasons));
  }
  return found;
}

bool are_alike(const Accelerators& one, const Accelerators& other) {
  return !one.name.empty() && one.name == other.name && one.ways == other.ways;
}

}  // namespace

Result<std::vector<Accelerators>> find_accelerators(const std::vector<device::Device>& devices,
                                                    const Options& options,
                                                    const backend::Registry& backends,
                                                    std::vector<std::string>& notes) {
  std::vector<Accelerators> all;
  for (const auto& device : devices) {
    PENSTOCK_TRY(auto found, find(device, options, backends, notes));
    const auto alike = std::ranges::find_if(
        all, [&](const Accelerators& known) { return are_alike(known, found); });
    if (alike == all.end()) {
      all.push_back(std::move(found));
    } else {
      alike->devices.push_back(device);
    }
  }
  return all;
}

std::string text_of(const std::vector<Accelerators>& accelerators) {
  std::string text;
  for (const auto& alike : accelerators) {
    for (const auto& device : alike.devices) {
      text += concat(device::to_string(device), " ", alike.name, " by ",
                     join(alike.ways, "+", [](const Way& way) { return way.name(); }), ",");
    }
  }
  return text;
}

}  // namespace penstock::tune
