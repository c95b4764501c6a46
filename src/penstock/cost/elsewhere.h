// Elsewhere: another machine that measures in place of this one.
#pragma once

#include <functional>
#include <string>

#include "penstock/base/result.h"
#include "penstock/cost/worker.h"
#include "penstock/device/topology.h"

namespace penstock::cost {

/// One thread at a time.
class Elsewhere {
 public:
  virtual ~Elsewhere() = default;
  [[nodiscard]] virtual const device::Topology& topology() const = 0;
  /// "1.31.0, penstock 0.1.0"; empty where it is not there.
  [[nodiscard]] virtual std::string engine_version(const std::string& backend) const = 0;
  /// Runs a job whose files are of this machine. As Worker::run().
  virtual Result<WorkerOutcome> run(const Job& job, const std::function<bool()>& interrupted) = 0;
};

}  // namespace penstock::cost
