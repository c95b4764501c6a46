// What it costs to hand a tensor from one backend to another on one thread.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/cost/profiler.h"
#include "penstock/cost/statistics.h"

namespace penstock::cost {

/// Measured as parts are: with a thread for each CPU of the device, while the same runs on the
/// neighbours. Lines a + b * bytes for each pair of backends, fitted to chains of two element-wise
/// models of four sizes (Theil and Sen's fit, so that one bad measurement does no harm).
class Boundaries {
 public:
  /// From the database, the rest by measuring, within the profiler's limits. A pair that cannot be
  /// measured gets the default. \error as Profiler::measure()
  static Result<Boundaries> measure(Profiler& profiler, std::span<const std::string> backends,
                                    const device::Device& device,
                                    const std::vector<device::Device>& neighbours = {});

  /// What is to be added to the sum of two parts that were measured by themselves, at least 0: each
  /// of them holds its own engine's call and layouts already.
  [[nodiscard]] double boundary_seconds(const std::string& from, const std::string& to,
                                        double bytes) const;
  /// What is to be added, as measured. Often below 0: what one part just wrote is cached for the
  /// next, while a part by itself is measured over inputs that are not.
  [[nodiscard]] double beyond_parts_seconds(const std::string& from, const std::string& to,
                                            double bytes) const;
  /// What two calls cost beyond one call of a model that holds both: hand-over, engine call,
  /// layout.
  [[nodiscard]] double cut_seconds(const std::string& from, const std::string& to,
                                   double bytes) const;
  /// Whether the pair was measured.
  [[nodiscard]] bool knows(const std::string& from, const std::string& to) const;

 private:
  struct Lines {
    Line beyond_parts, beyond_whole;
  };
  std::map<std::pair<std::string, std::string>, Lines> lines_;
};

/// One pair over the sizes measured, each kept in the database as it comes.
/// Empty: not all could be had.
Result<std::vector<std::pair<double, Boundary>>> measure_boundary(
    Profiler& profiler, const std::string& from, const std::string& to,
    const device::Device& device, const std::vector<device::Device>& neighbours = {});

}  // namespace penstock::cost
