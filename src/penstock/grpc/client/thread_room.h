// Whether the system lets gRPC start the threads that it needs.
#pragma once

#include "penstock/base/result.h"

namespace penstock::grpc {

/// gRPC (1.51) waits for ever for a thread of its own that the system refuses. So as many are
/// started here, and ended, before it is called.
/// \error kResourceExhausted  the system refuses one.
Status check_thread_room();

}  // namespace penstock::grpc
