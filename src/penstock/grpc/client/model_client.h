// One model of any server that speaks the Open Inference Protocol.
#pragma once

#include <memory>
#include <string>

#include "penstock/base/result.h"
#include "penstock/grpc/client/peer_options.h"
#include "penstock/grpc/client/remote_model.h"

namespace penstock::grpc {

/// Blocks until the server has told of the model. Asks for a sign of life (ServerLive) where it
/// hears none. `model`: empty for the only one that the server has; `version`: for its own choice.
/// \error kUnavailable     no server is there.
/// \error kInvalidArgument, kNotFound  the server has no such model, or several where none is
/// named,
///                                     or one of types unknown here.
Result<std::unique_ptr<RemoteModel>> connect_model(PeerOptions options, std::string model,
                                                   std::string version);

}  // namespace penstock::grpc
