// Moving: how many bytes a second get through in one direction, while others may be under way too.
#pragma once

#include <chrono>
#include <string>

#include "penstock/base/result.h"
#include "penstock/grpc/client/peer.h"

namespace penstock::grpc {

/// Sends pieces to a worker's Echo, or has it send them (`there` false), for so long, and counts
/// those that have arrived from the first one's arrival to the last one's. Blocks for so long, and
/// until what is under way has arrived. \error kUnavailable, and what the worker says.
/// \threads  any, several at once.
Result<double> move_bytes(const Connection& connection, const std::string& address, bool there,
                          std::chrono::nanoseconds lasts);

}  // namespace penstock::grpc
