// IdleProbe: how much of a CPU's time nobody uses.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::follow {

/// A thread that takes what others leave, for a share of each second on each of some CPUs. What it
/// gets of that is what is idle there; who else wants the CPU hardly notices.
/// \threads  all functions may be called from any thread, start() and stop() once each.
class IdleProbe {
 public:
  /// `share`: of each CPU's time, at most.
  explicit IdleProbe(double share) : share_(share) {}
  IdleProbe(const IdleProbe&) = delete;
  IdleProbe& operator=(const IdleProbe&) = delete;
  ~IdleProbe() { stop(); }

  /// \error kResourceExhausted  no thread is left.
  Status start();
  void stop();
  /// These are asked from now on.
  void watch(std::vector<int> cpus);
  /// The newest answer of each that is watched and has one; none where the process may not run, as
  /// outside its cpuset.
  [[nodiscard]] std::map<int, double> idle() const;

 private:
  void run(const std::vector<int>& everywhere);
  void look(const std::vector<int>& everywhere);
  [[nodiscard]] std::optional<double> measure(int cpu) const;

  const double share_;
  std::thread thread_;
  mutable std::mutex mutex_;  // Guards all below.
  std::condition_variable woken_;
  bool stopping_ = false;
  std::vector<int> cpus_;
  std::map<int, double> idle_;
};

}  // namespace penstock::follow
