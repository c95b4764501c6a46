#include "penstock/device/cgroup.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
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

/// Whether a line of /proc/self/cgroup, "4:cpu,cpuacct:/group" or "0::/group", is about CPU time.
bool about_cpu(const std::string& controllers) {
  std::istringstream names(controllers);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "cpu") return true;
  }
  return controllers.empty();
}

/// Where the hierarchy of those controllers may be mounted.
std::vector<fs::path> mounts(const fs::path& root, const std::string& controllers) {
  if (controllers.empty()) return {root, root / "unified"};
  return {root / controllers, root / "cpu"};
}

}  // namespace

std::optional<double> read_cpu_quota(const fs::path& membership, const fs::path& root) {
  std::optional<double> tightest;
  const auto consider = [&tightest](const fs::path& group) {
    const auto limit = limit_of(group);
    if (limit) tightest = tightest ? std::min(*tightest, *limit) : *limit;
  };
  std::ifstream lines(membership);
  for (std::string line; std::getline(lines, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first == std::string::npos ? first : first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    if (!about_cpu(controllers)) continue;
    for (const fs::path& mount : mounts(root, controllers)) {
      // Inside a container the path may be that of the host: the mount itself is then the group.
      fs::path group = fs::path(line.substr(second + 1)).relative_path();
      for (; !group.empty(); group = group.parent_path()) consider(mount / group);
      consider(mount);
    }
  }
  return tightest;
}

}  // namespace penstock::device
