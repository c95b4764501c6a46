// Whether gRPC can start in this process, and has the threads that it needs.
#pragma once

#include "penstock/base/result.h"

namespace penstock::grpc {

/// To be asked before each channel and server. gRPC's threads do not survive a fork: a child of a
/// process that used it would wait for them for ever. So gRPC (1.51) does for a thread that the
/// system refuses; as many as it needs are started here, and ended.
/// \error kFailedPrecondition  the process was forked from one that had asked.
/// \error kResourceExhausted  the system refuses a thread.
Status check_may_start();

}  // namespace penstock::grpc
