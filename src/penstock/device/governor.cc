// Reads the first word of the CPU's cpufreq/scaling_governor.
#include "penstock/device/governor.h"

#include <fstream>

namespace penstock::device {

std::string read_governor(const std::filesystem::path& cpus, int number) {
  std::ifstream in(cpus / ("cpu" + std::to_string(number)) / "cpufreq" / "scaling_governor");
  std::string governor;
  in >> governor;
  return governor;
}

}  // namespace penstock::device
