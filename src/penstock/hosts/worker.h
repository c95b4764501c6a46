// Worker: what planning asks of a host, whichever protocol it speaks.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/topology.h"
#include "penstock/hosts/hosts.h"
#include "penstock/hosts/network.h"

namespace penstock::hosts {

struct WorkerBackend {
  std::string name;
  std::string engine_version;
  std::string unavailable;  ///< Why it cannot run; empty: it can.
};

struct Description {
  std::string system;             ///< The host's own name for itself.
  std::string penstock;           ///< Version.
  device::Topology topology;      ///< Its CPUs are those that the worker may use.
  std::uint64_t memory_left = 0;  ///< Bytes, now. 0: not known.
  std::vector<WorkerBackend> backends;
};

/// Both directions of a way.
struct WayBothWays {
  double latency = 0;          ///< Seconds, one way.
  double there = 0, back = 0;  ///< Bytes a second.
  /// Of the worker; none of way_to(), and of a worker of a version that tells no CPU time.
  std::optional<MessageCosts> messages = {};
};

/// How a job of penstock-measure ended there.
struct JobEnd {
  std::string report;     ///< A line of JSON; empty: the process died.
  std::string died, why;  ///< cost::FailureKind and a sentence.
};

struct JobFile {
  std::string path;  ///< As the job names it.
  std::filesystem::path file;
};

/// One thread at a time.
class Worker {
 public:
  virtual ~Worker() = default;
  [[nodiscard]] virtual const Description& description() const = 0;
  /// Between here and there.
  virtual Result<WayBothWays> way() = 0;
  /// Between there and another host.
  virtual Result<WayBothWays> way_to(const std::string& address) = 0;
  /// Waits until a transfer is over: bytes a second.
  using Rate = std::function<Result<double>()>;
  /// Begins to move bytes for so many seconds from here to there, or back. Of a worker one transfer
  /// is under way at a time; those of several go on at once.
  virtual Rate moving(bool there, double seconds) = 0;
  /// The same from there to another host, or back.
  virtual Rate moving_to(const std::string& address, bool there, double seconds) = 0;
  /// `job`: cost::Job in a line. `interrupted` is asked while it runs.
  virtual Result<JobEnd> run(const std::string& job, const std::vector<JobFile>& files,
                             const std::function<bool()>& interrupted) = 0;
};

/// Reaches the worker of a host. `peers`: whom way_to() may name.
using Reach = std::function<Result<std::unique_ptr<Worker>>(const Host& host,
                                                            const std::vector<std::string>& peers)>;

}  // namespace penstock::hosts
