// Device: a place with compute of its own, by name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::device {

/// "cpu:0", "cpu:0-3", "cpu:0+2", "cuda:0", "host:port/cpu:0-3", "oip://host:port",
/// "oip://unix:PATH". A value; need not exist here.
struct Device {
  /// kServer: one that has its own models, and says nothing of where it runs them.
  enum class Kind { kCpu, kCuda, kServer };

  std::string host;  ///< "address:port", empty for this machine; kServer: "unix:PATH" too.
  Kind kind = Kind::kCpu;
  std::vector<int> cpus;  ///< kCpu: logical CPU numbers of the operating system, ascending, unique.
  int index = 0;          ///< kCuda: the ordinal.

  bool operator==(const Device&) const = default;

  /// Whether it is made of CPUs of this machine; they need not be available.
  [[nodiscard]] bool is_local_cpu() const { return host.empty() && kind == Kind::kCpu; }
  /// Whether it is of this machine and computes beside its CPUs; it need not be there.
  [[nodiscard]] bool is_accelerator() const { return host.empty() && kind == Kind::kCuda; }
  [[nodiscard]] bool is_remote() const { return !host.empty(); }
};

/// Canonical text: "cpu:0-2+5".
std::string to_string(const Device& device);

/// Whether the text is "address:port", the port a number; an IPv6 address in brackets.
bool is_host(std::string_view text);

/// \error kInvalidArgument  names the text and shows the forms that are understood.
Result<Device> parse_device(std::string_view text);

/// CPUs the process may use, ascending: the inherited cpuset (taskset, cgroup).
std::vector<int> inherited_cpus();

/// A comma-separated list: "cpu:0,cpu:1" or "cpu:0-1,cpu:2+3". "all": one device for each of
/// `cpus`.
Result<std::vector<Device>> parse_devices(std::string_view text,
                                          const std::vector<int>& cpus = inherited_cpus());

/// Whether a local CPU device lies inside `present`. Others are not checked here.
/// \error kNotFound  names the device, the missing CPUs and those there are.
Status check_available(const Device& device, const std::vector<int>& present = inherited_cpus());

/// Whether no CPU of this machine is in two of the devices. \error kInvalidArgument names both
Status check_disjoint(const std::vector<Device>& devices);

}  // namespace penstock::device
