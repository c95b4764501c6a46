// Front: a server's models over gRPC.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "penstock/base/result.h"
#include "penstock/grpc/client/peer_options.h"
#include "penstock/grpc/server_certificates.h"
#include "penstock/serve/access.h"
#include "penstock/serve/access_log.h"
#include "penstock/serve/server.h"

namespace penstock::host {
class Host;
}

namespace penstock::grpc {

class Front {
 public:
  struct Options {
    std::string address = "127.0.0.1:8001";  ///< Port 0: any that is free. Or "unix:PATH".
    NewCertificates certificates = {};       ///< Null: plain text.
    serve::AccessLog* log = nullptr;         ///< Outlives the front; null: none.
    /// Given: callers of other machines have stages here, too (worker.proto).
    host::Host* host = nullptr;
    /// With `host`: how other workers are reached, whose tensors are pulled; the address left out.
    PeerOptions peers = {};
    std::function<void(const std::string&)> say = {};  ///< gRPC's own log lines. Any thread.
  };

  /// \pre  `server`, `access` and `host` outlive it
  /// \error kUnavailable  the address cannot be listened on.
  static Result<std::unique_ptr<Front>> start(serve::Server& server, const serve::Access& access,
                                              const Options& options);
  ~Front();
  Front(const Front&) = delete;
  Front& operator=(const Front&) = delete;

  /// Where it listens, with the port that was chosen.
  [[nodiscard]] const std::string& address() const;

  /// No new connections; what was answered is sent, within `patience`. Then all connections close:
  /// their clients hear that the server is unavailable. Idempotent.
  void stop(std::chrono::nanoseconds patience);

 private:
  struct State;
  explicit Front(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::grpc
