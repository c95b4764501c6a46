// WorkerProbe: asks a worker of ours what it is, what its link carries, what models cost there.
// For planning; frames go by other ways.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/device/topology.h"
#include "penstock/grpc/client/peer_options.h"

namespace penstock::grpc {

struct WorkerBackend {
  std::string name;
  std::string engine_version;
  std::string unavailable;  ///< Why it cannot run; empty: it can.
};

struct WorkerDescription {
  std::string host;      ///< The system's own name for itself.
  std::string penstock;  ///< Version.
  /// `cpus` are those that the worker may use.
  device::Topology topology;
  std::uint64_t memory_left_bytes = 0;  ///< Now. 0: not known.
  std::vector<WorkerBackend> backends;
};

/// CPU seconds that messages take of the worker, all its threads together: gRPC, TLS and the kernel
/// as far as it counts them.
struct MessageCosts {
  double message = 0;   ///< Each, to it and its answer.
  double byte_in = 0;   ///< Each byte that it gets.
  double byte_out = 0;  ///< Each byte that it sends.
};

/// The way between two machines.
struct MeasuredWay {
  double latency_seconds = 0;         ///< One way: half of there and back, the median.
  double there_bytes_per_second = 0;  ///< From the caller, or the worker that was asked.
  double back_bytes_per_second = 0;
  /// Of way(): of the worker; none where its version tells no CPU time.
  std::optional<MessageCosts> messages = {};
};

/// How a job of penstock-measure ended.
struct MeasuredJob {
  std::string report;  ///< One line of JSON; empty: the process died.
  std::string died;    ///< "crash", "hang", "out_of_memory"
  std::string why;
};

/// A session with one worker. One thread at a time.
class WorkerProbe {
 public:
  /// Blocks for seconds at most. `peers`: addresses of the workers that way_to() may name.
  /// \error kUnavailable  no worker is there, or it has not answered in time.
  ///        kFailedPrecondition  it speaks another version.
  static Result<std::unique_ptr<WorkerProbe>> connect(PeerOptions options,
                                                      std::vector<std::string> peers);
  ~WorkerProbe();
  WorkerProbe(const WorkerProbe&) = delete;
  WorkerProbe& operator=(const WorkerProbe&) = delete;

  [[nodiscard]] const WorkerDescription& description() const;

  /// Between here and there. Takes about half a second.
  Result<MeasuredWay> way();
  /// Between this worker and another one. \error kUnavailable  it cannot reach that.
  Result<MeasuredWay> way_to(const std::string& address);

  /// Waits until a transfer is over: bytes a second.
  using Rate = std::function<Result<double>()>;
  /// Begins to move bytes for so many seconds from here to the worker, or from it (`there` false).
  /// Transfers of several probes go on at once; of this one, one at a time.
  Rate moving(bool there, double seconds);
  /// Begins to move bytes between this worker and another one: to it (`there`), or from it.
  Rate moving_to(const std::string& address, bool there, double seconds);

  /// A file of this machine under the path by which a job names it.
  struct File {
    std::string path;
    std::filesystem::path file;
  };
  /// Runs a job there (cost::Job as a line) once the files that it lacks are sent. Blocks; while it
  /// does, `interrupted` is asked ten times a second: true ends it as kCancelled.
  /// \error what the worker says.
  Result<MeasuredJob> measure(const std::string& job, const std::vector<File>& files,
                              double silence_seconds, const std::function<bool()>& interrupted);

 private:
  struct State;
  explicit WorkerProbe(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::grpc
