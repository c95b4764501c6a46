// WorkerPuller: tensors from other workers, and the links to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/peer_options.h"
#include "penstock/grpc/worker.pb.h"
#include "penstock/host/call.h"

namespace penstock::grpc {

/// One way to each worker, kept while it is in use or of the last few.
/// \threads  all functions may be called from any thread.
class WorkerPuller final : public host::Puller {
 public:
  /// `peers`: how all of them are reached, the address left out.
  explicit WorkerPuller(PeerOptions peers);

  std::shared_ptr<serve::Call> pull(const host::Ticket& ticket, DType dtype,
                                    const std::vector<std::int64_t>& dims,
                                    std::optional<host::Clock::time_point> deadline,
                                    Done done) override;

  /// \error kNotFound  a file of the options.
  Result<std::shared_ptr<const Connection>> connect(const std::string& address);
  /// The next one makes another connection: this one is lost.
  void forget(const std::string& address);

 private:
  struct Ways;
  const PeerOptions peers_;
  const std::shared_ptr<Ways> ways_;
};

struct LinkTimes {
  double latency_seconds = 0;  ///< One way.
  double there_bytes_per_second = 0, back_bytes_per_second = 0;
};

/// Blocks for about so long. Of what does not move nothing is measured: 0.
/// \error kUnavailable, and what the other worker says.
Result<LinkTimes> measure_link(const Connection& connection, const std::string& address,
                               std::chrono::nanoseconds most,
                               worker::MeasureLinkRequest::Moving moving);

}  // namespace penstock::grpc
