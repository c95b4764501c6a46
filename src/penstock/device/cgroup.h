// The CPU time and the memory that the machine has, and the process's control group may use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace penstock::device {

/// The tightest limit, in CPUs, of the process's group and those above it: cgroup v2's `cpu.max`,
/// or v1's `cpu.cfs_quota_us`. `membership` is /proc/self/cgroup, `root` /sys/fs/cgroup. Empty: no
/// limit, or none that this process can see.
std::optional<double> read_cpu_quota(const std::filesystem::path& membership,
                                     const std::filesystem::path& root);

/// read_cpu_quota() of this process.
std::optional<double> cpu_quota();

/// Bytes that the process may still take: MemAvailable of `meminfo` (/proc/meminfo), or less where
/// the limit of its group, or of one above, is nearer: cgroup v2's `memory.max` or v1's
/// `memory.limit_in_bytes`, the page cache of files counted as free. Empty: nothing tells.
std::optional<std::uint64_t> read_available_memory(const std::filesystem::path& meminfo,
                                                   const std::filesystem::path& membership,
                                                   const std::filesystem::path& root);

/// read_available_memory() of this machine and process.
std::optional<std::uint64_t> available_memory();

/// Bytes that the machine has: MemTotal of `meminfo`. 0: nothing tells.
std::uint64_t read_machine_memory(const std::filesystem::path& meminfo);

}  // namespace penstock::device
