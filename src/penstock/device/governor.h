// How the operating system sets the frequency of a CPU.
#pragma once

#include <filesystem>
#include <string>

namespace penstock::device {

/// "performance", "powersave", "schedutil"; empty where nothing tells, as on most virtual machines.
/// `cpus` is /sys/devices/system/cpu.
std::string read_governor(const std::filesystem::path& cpus, int number);

}  // namespace penstock::device
