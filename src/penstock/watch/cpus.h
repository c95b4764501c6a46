// How busy the CPUs are that this process may use.
#pragma once

#include <cstdint>
#include <vector>

namespace penstock::watch {

/// \threads  one at a time.
class CpuLoads {
 public:
  explicit CpuLoads(std::vector<int> cpus);

  [[nodiscard]] const std::vector<int>& cpus() const { return cpus_; }
  /// The share of the time since the last call that each CPU was busy, whoever made it so. The
  /// kernel counts in steps of 10 ms. All 0 where it does not tell.
  std::vector<double> since_last();

 private:
  struct Times {
    std::uint64_t busy = 0, all = 0;  // In ticks.
  };
  [[nodiscard]] std::vector<Times> read() const;

  std::vector<int> cpus_;
  std::vector<Times> last_;  // Beside cpus_.
};

}  // namespace penstock::watch
