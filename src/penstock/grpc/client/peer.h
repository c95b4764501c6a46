// Connection: a way to another machine.
#pragma once

#include <memory>
#include <string>

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include "penstock/base/result.h"
#include "penstock/grpc/client/pace.h"
#include "penstock/grpc/client/peer_options.h"

namespace penstock::grpc {

/// A way to a peer. Opening it makes no connection yet.
class Connection {
 public:
  /// \error kNotFound  a file; names it.
  static Result<Connection> open(const PeerOptions& options);

  [[nodiscard]] const std::shared_ptr<::grpc::Channel>& channel() const { return channel_; }
  /// Tells the peer with the call who asks.
  void introduce(::grpc::ClientContext& context) const {
    if (!authorization_.empty()) context.AddMetadata("authorization", authorization_);
  }
  /// Of a call that ended as UNAVAILABLE: whether the connection is what failed.
  [[nodiscard]] bool broken() const;
  /// Of the tensors that come by it.
  [[nodiscard]] Pace pace() const { return pace_; }

 private:
  std::shared_ptr<::grpc::Channel> channel_;
  std::string authorization_;
  Pace pace_;
};

/// gRPC's sentence of an UNAVAILABLE call, in words for who gave the address where no connection
/// was made, such as to a server that wants TLS; any other sentence as it is.
std::string explain_unreachable(const std::string& said);

/// What a peer says of an error, of which a long text, such as a trace of its stack, keeps its
/// beginning and its end: 2 kB.
std::string shortened(const std::string& said);

/// The end of a call as an error, with the peer as its place, shortened(). \pre  !status.ok()
Error to_error(const ::grpc::Status& status, const std::string& address);

/// Whether a try to have a lost peer back tells more of it than that it took too long.
bool says_why(const Error& failed_try);

}  // namespace penstock::grpc
