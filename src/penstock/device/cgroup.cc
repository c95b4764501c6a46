// Reads the limits of cgroup v1 and v2 from the process's group upwards, and takes the least.
#include "penstock/device/cgroup.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

namespace penstock::device {
namespace {

namespace fs = std::filesystem;

/// `quota` and `period`, as numbers, if both are and neither says "no limit".
std::optional<double> ratio(const std::string& quota, const std::string& period) {
  std::istringstream quota_text(quota);
  std::istringstream period_text(period);
  double quota_us = 0;
  double period_us = 0;
  if (!(quota_text >> quota_us) || !(period_text >> period_us)) return std::nullopt;
  if (quota_us <= 0 || period_us <= 0) return std::nullopt;
  return quota_us / period_us;
}

std::string first_word(const fs::path& file) {
  std::ifstream in(file);
  std::string word;
  in >> word;
  return word;
}

std::optional<double> limit_of(const fs::path& group) {
  std::ifstream in(group / "cpu.max");  // "150000 100000" or "max 100000".
  std::string quota;
  std::string period;
  if (in >> quota >> period) return ratio(quota, period);
  return ratio(first_word(group / "cpu.cfs_quota_us"), first_word(group / "cpu.cfs_period_us"));
}

std::optional<std::uint64_t> number_in(const fs::path& file) {
  std::ifstream in(file);
  std::uint64_t number = 0;
  return in >> number ? std::optional(number) : std::nullopt;
}

constexpr std::uint64_t kKibibyte = 1024;

/// The sum of the numbers behind the keys in lines "key number" or "key: number kB".
std::uint64_t sum_of(const fs::path& file, const std::set<std::string>& keys) {
  std::ifstream in(file);
  std::uint64_t sum = 0;
  std::string name;
  for (std::uint64_t number = 0; in >> name;) {
    if (keys.contains(name) && in >> number) sum += number;
    in.clear();
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return sum;
}

std::optional<std::uint64_t> memory_left(const fs::path& group) {
  constexpr std::uint64_t kNone = std::uint64_t{1}
                                  << 62U;  // Version 1's limit where there is none.
  std::error_code unreadable;
  const bool second = fs::exists(group / "memory.max", unreadable);
  const auto limit = number_in(group / (second ? "memory.max" : "memory.limit_in_bytes"));
  if (!limit || *limit >= kNone) return std::nullopt;
  const auto used = number_in(group / (second ? "memory.current" : "memory.usage_in_bytes"));
  const std::string prefix = second ? "" : "total_";
  // The kernel adds up all of the group's CPUs for each reading.
  const auto cache =
      sum_of(group / "memory.stat", {prefix + "inactive_file", prefix + "active_file"});
  const auto taken = used.value_or(0) > cache ? *used - cache : 0;
  return *limit > taken ? *limit - taken : 0;
}

/// Whether a line of /proc/self/cgroup, "4:cpu,cpuacct:/group" or "0::/group", is about the
/// controller.
bool is_about(const std::string& controllers, const std::string& controller) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == controller) return true;
  }
  return controllers.empty();
}

/// Where the hierarchy of those controllers may be mounted.
std::vector<fs::path> mounts(const fs::path& root, const std::string& controllers,
                             const std::string& controller) {
  if (controllers.empty()) return {root, root / "unified"};
  return {root / controllers, root / controller};
}

/// The least that `read` finds in the process's group and in those above it.
template <typename Number>
std::optional<Number> tightest(const fs::path& membership, const fs::path& root,
                               const std::string& controller,
                               std::optional<Number> (*read)(const fs::path& group)) {
  std::optional<Number> least;
  const auto consider = [&](const fs::path& group) {
    const auto found = read(group);
    if (found) least = least ? std::min(*least, *found) : *found;
  };
  std::ifstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!is_about(controllers, controller)) continue;
    for (const fs::path& mount : mounts(root, controllers, controller)) {
      // Inside a container the path may be that of the host: the mount itself is then the group.
      fs::path group = fs::path(line.substr(second + 1)).relative_path();
      for (; !group.empty(); group = group.parent_path()) consider(mount / group);
      consider(mount);
    }
  }
  return least;
}

}  // namespace

std::optional<double> read_cpu_quota(const fs::path& membership, const fs::path& root) {
  return tightest<double>(membership, root, "cpu", limit_of);
}

std::optional<double> cpu_quota() {
  return read_cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
}

std::optional<std::uint64_t> read_available_memory(const fs::path& meminfo,
                                                   const fs::path& membership,
                                                   const fs::path& root) {
  auto available = tightest<std::uint64_t>(membership, root, "memory", memory_left);
  const auto machine = sum_of(meminfo, {"MemAvailable:"}) * kKibibyte;
  if (machine > 0) available = std::min(available.value_or(machine), machine);
  return available;
}

std::optional<std::uint64_t> available_memory() {
  return read_available_memory("/proc/meminfo", "/proc/self/cgroup", "/sys/fs/cgroup");
}

std::uint64_t read_machine_memory(const fs::path& meminfo) {
  return sum_of(meminfo, {"MemTotal:"}) * kKibibyte;
}

}  // namespace penstock::device
