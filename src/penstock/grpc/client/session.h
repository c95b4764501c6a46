// Session: what a caller has on a worker, kept for as long as beats go there and back.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/peer_clock.h"

namespace penstock::grpc {

class Session {
 public:
  struct Wanted {
    std::string id;                    ///< Empty: a new one.
    std::vector<std::string> tickets;  ///< Of `id`, those that are held here: others are freed.
    std::vector<std::string> peers;    ///< Addresses of workers whose tensors calls may fetch.
    std::shared_ptr<PeerClock> clock;  ///< Told by each beat.
  };
  /// \error kNotFound  it is not there any more.
  static Result<std::unique_ptr<Session>> open(const Connection& connection,
                                               const PeerOptions& options, Wanted wanted);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Pauses between beats: so that one comes back within the patience, and each within the lease.
  static std::chrono::nanoseconds beats_every(std::chrono::nanoseconds patience,
                                              std::chrono::nanoseconds lease);

  [[nodiscard]] const std::string& id() const;
  /// Why the worker is taken for lost: its stream has ended, or no beat came back in time.
  /// `heard_ns`: when anything else was heard of it last.
  [[nodiscard]] std::optional<Error> silence(std::int64_t heard_ns) const;
  void close();      ///< In order: the worker lets go of all that it owns.
  void break_off();  ///< It stays there for its lease.

 private:
  struct State;
  explicit Session(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace penstock::grpc
