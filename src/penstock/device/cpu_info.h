// CpuInfo: what Linux says of the kind of CPUs in /proc/cpuinfo, which differs by processor.
#pragma once

#include <filesystem>
#include <string>

namespace penstock::device {

struct CpuInfo {
  /// "Intel(R) Xeon(R) ..."; on arm64, where Linux knows numbers only, "implementer 0x41 part
  /// 0xd0c"; empty where nothing tells.
  std::string model;
  std::string flags;  ///< Instructions that it has, one word each.
};

/// Of the first CPU in `file` (/proc/cpuinfo); empty where that cannot be read.
CpuInfo read_cpu_info(const std::filesystem::path& file);

}  // namespace penstock::device
