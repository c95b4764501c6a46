// Reads the ticks in /proc/stat, and takes the busy share of those since the last look.
#include "penstock/watch/cpus.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

namespace penstock::watch {

CpuLoads::CpuLoads(std::vector<int> cpus) : cpus_(std::move(cpus)), last_(read()) {}

std::vector<CpuLoads::Times> CpuLoads::read() const {
  std::vector<Times> times(cpus_.size());
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("cpu") || line.starts_with("cpu ")) continue;
    std::istringstream fields(line.substr(3));
    int cpu = -1;
    fields >> cpu;
    const auto at = std::ranges::find(cpus_, cpu);
    if (at == cpus_.end()) continue;
    auto& [busy, all] = times[static_cast<std::size_t>(at - cpus_.begin())];
    // user nice system idle iowait irq softirq steal; what follows is in user and nice already.
    constexpr int kIdle = 3, kWaits = 4, kFields = 8;
    std::uint64_t ticks = 0;
    for (int field = 0; field < kFields && fields >> ticks; ++field) {
      all += ticks;
      if (field != kIdle && field != kWaits) busy += ticks;
    }
  }
  return times;
}

std::vector<double> CpuLoads::since_last() {
  const auto now = read();
  std::vector<double> loads(cpus_.size(), 0);
  for (std::size_t i = 0; i < now.size(); ++i) {
    if (now[i].all <= last_[i].all) continue;
    const auto busy = static_cast<double>(now[i].busy - std::min(now[i].busy, last_[i].busy));
    loads[i] = std::min(1.0, busy / static_cast<double>(now[i].all - last_[i].all));
  }
  last_ = now;
  return loads;
}

}  // namespace penstock::watch
