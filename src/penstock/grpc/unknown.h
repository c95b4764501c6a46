// Answers calls of methods that the server does not have.
#pragma once

#include <string>

#include <grpcpp/generic/async_generic_service.h>

namespace penstock::grpc {

/// gRPC's own answer says nothing. The code is the same.
class Unknown final : public ::grpc::CallbackGenericService {
 public:
  /// Of a worker there is one service more.
  explicit Unknown(bool worker) : worker_(worker) {}

  ::grpc::ServerGenericBidiReactor* CreateReactor(
      ::grpc::GenericCallbackServerContext* context) override;

 private:
  const bool worker_;
};

}  // namespace penstock::grpc
