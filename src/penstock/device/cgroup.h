// The CPU time that the process's control group may use.
#pragma once

#include <filesystem>
#include <optional>

namespace penstock::device {

/// The tightest limit, in CPUs, of the process's group and those above it: cgroup v2's `cpu.max`,
/// or v1's `cpu.cfs_quota_us`. `membership` is /proc/self/cgroup, `root` /sys/fs/cgroup. Empty: no
/// limit, or none that this process can see.
std::optional<double> read_cpu_quota(const std::filesystem::path& membership,
                                     const std::filesystem::path& root);

}  // namespace penstock::device
