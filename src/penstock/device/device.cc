// Parses and prints names of devices, and checks their CPUs against the process's cpuset.
#include "penstock/device/device.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <set>

#include <sched.h>

#include "penstock/base/address.h"
#include "penstock/device/address.h"

namespace penstock::device {
namespace {

constexpr std::string_view kServer = "oip://";
constexpr int kMostCpus = 1 << 16;  // More than any kernel has; keeps "cpu:0-4000000000" small.

Error not_understood(std::string_view text, std::string_view why) {
  return invalid_argument(
      "device '", text, "': ", why,
      "; write cpu:0, cpu:0-3, cpu:0+2, cuda:0, host:port/cpu:0 or oip://host:port");
}

/// The whole of `text` as a number in [0, limit).
std::optional<int> parse_number(std::string_view text, int limit) {
  int value = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || text.front() == '-' || value >= limit) return std::nullopt;
  return value;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0;;) {
    const auto end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

/// Appends "3" or "0-3". Returns what is wrong, or nothing.
std::string add_range(std::string_view text, std::vector<int>& cpus) {
  const auto dash = text.find('-');
  const auto first = parse_number(text.substr(0, dash), kMostCpus);
  const auto last =
      dash == std::string_view::npos ? first : parse_number(text.substr(dash + 1), kMostCpus);
  if (!first || !last) {
    return concat("expected a CPU number below ", kMostCpus, " or a range, found '", text, "'");
  }
  if (*last < *first) return concat("range '", text, "' ends before it begins");
  for (int cpu = *first; cpu <= *last; ++cpu) cpus.push_back(cpu);
  return {};
}

Result<std::vector<int>> parse_cpus(std::string_view text, std::string_view whole) {
  std::vector<int> cpus;
  for (const auto part : split(text, '+')) {
    const std::string wrong = add_range(part, cpus);
    if (!wrong.empty()) return not_understood(whole, wrong);
  }
  std::ranges::sort(cpus);
  const auto repeated = std::ranges::unique(cpus);
  cpus.erase(repeated.begin(), repeated.end());
  return cpus;
}

/// "0-2+5".
std::string ranges_of(const std::vector<int>& cpus) {
  std::string text;
  for (std::size_t begin = 0; begin < cpus.size();) {
    std::size_t end = begin + 1;
    while (end < cpus.size() && cpus[end] == cpus[end - 1] + 1) ++end;
    if (!text.empty()) text += '+';
    text += std::to_string(cpus[begin]);
    if (end - begin > 1) text += '-' + std::to_string(cpus[end - 1]);
    begin = end;
  }
  return text;
}

std::vector<Device> one_for_each(const std::vector<int>& cpus) {
  std::vector<Device> devices;
  for (const int cpu : cpus) devices.push_back({{}, Device::Kind::kCpu, {cpu}, 0});
  return devices;
}

}  // namespace

std::string to_string(const Device& device) {
  if (device.kind == Device::Kind::kServer) return concat(kServer, device.host);
  const std::string place = device.host.empty() ? "" : device.host + "/";
  if (device.kind == Device::Kind::kCuda) return place + "cuda:" + std::to_string(device.index);
  return place + "cpu:" + ranges_of(device.cpus);
}

bool is_host(std::string_view text) {
  return static_cast<bool>(split_address(std::string(text)));
}

Result<Device> parse_device(std::string_view text) {
  Device device;
  if (text.starts_with(kServer)) {
    device.kind = Device::Kind::kServer;
    device.host = text.substr(kServer.size());
    if (is_server(device.host)) return device;
    return not_understood(text, concat("expected oip://host:port, found '", device.host, "'"));
  }
  std::string_view local = text;
  if (const auto slash = text.rfind('/'); slash != std::string_view::npos) {
    device.host = text.substr(0, slash);
    local = text.substr(slash + 1);
    if (!is_host(device.host)) {
      return not_understood(text, concat("expected host:port, found '", device.host, "'"));
    }
  }
  if (local.starts_with("cpu:")) {
    PENSTOCK_TRY(device.cpus, parse_cpus(local.substr(4), text));
    return device;
  }
  if (local.starts_with("cuda:")) {
    const auto index = parse_number(local.substr(5), kMostCpus);
    if (!index) {
      return not_understood(text, concat("expected a number, found '", local.substr(5), "'"));
    }
    device.kind = Device::Kind::kCuda;
    device.index = *index;
    return device;
  }
  return not_understood(text, "unknown kind");
}

Result<std::vector<Device>> parse_devices(std::string_view text, const std::vector<int>& cpus) {
  if (text == "all") return one_for_each(cpus);
  std::vector<Device> devices;
  for (const auto part : split(text, ',')) {
    if (part.empty()) {
      return invalid_argument("device list '", text,
                              "': an entry is empty; write cpu:0,cpu:1 or all");
    }
    PENSTOCK_TRY(Device device, parse_device(part));
    devices.push_back(std::move(device));
  }
  return devices;
}

std::vector<int> inherited_cpus() {
  // The kernel refuses sets smaller than its own number of CPUs: grow until it accepts.
  for (int count = CPU_SETSIZE; count <= kMostCpus; count *= 2) {
    const std::size_t size_bytes = CPU_ALLOC_SIZE(count);
    std::vector<cpu_set_t> set(size_bytes / sizeof(cpu_set_t));
    if (sched_getaffinity(0, size_bytes, set.data()) != 0) {
      if (errno == EINVAL) continue;
      return {};
    }
    std::vector<int> cpus;
    for (int cpu = 0; cpu < count; ++cpu) {
      if (CPU_ISSET_S(cpu, size_bytes, set.data())) cpus.push_back(cpu);
    }
    return cpus;
  }
  return {};
}

Status check_available(const Device& device, const std::vector<int>& present) {
  if (!device.is_local_cpu()) return {};
  std::vector<int> missing;
  std::ranges::set_difference(device.cpus, present, std::back_inserter(missing));
  if (missing.empty() && !device.cpus.empty()) return {};
  if (device.cpus.empty()) return not_found("device 'cpu:': names no CPU");
  return not_found("CPU ", ranges_of(missing), missing.size() == 1 ? " is" : " are",
                   " not among those this process may use: ", ranges_of(present),
                   "; 'penstock devices' lists them")
      .within({Where::kDevice, to_string(device)});
}

Status check_disjoint(const std::vector<Device>& devices) {
  std::set<int> taken;
  for (const auto& device : devices) {
    if (device.is_remote()) continue;
    for (const int cpu : device.cpus) {
      if (taken.insert(cpu).second) continue;
      return invalid_argument("device '", to_string(device), "': CPU ", cpu,
                              " is in another device too; each may be in one");
    }
  }
  return {};
}

}  // namespace penstock::device
