// How fast bytes get from one CPU of this machine to another, and to the memory of a device.
#pragma once

#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"

namespace penstock::probe {

struct LinkTiming {
  double latency_seconds = 0;   ///< Until a word that one CPU writes is seen by the other.
  double bytes_per_second = 0;  ///< Reading on one what the other has just written.
};

/// Blocks for some tens of milliseconds; makes a thread on each side.
/// \error kInvalidArgument  both sides are the same single CPU, or one may not be used
/// \error kResourceExhausted  the system has no thread left.
Result<LinkTiming> time_link(const std::vector<int>& from, const std::vector<int>& to);

/// Of copies between the host's memory and this one, on the calling thread: the latency is that of
/// a single number. Blocks for some tenths of a second. \error as Memory::allocate() and copy()
Result<LinkTiming> time_copies(backend::Memory& memory, bool to_host);

}  // namespace penstock::probe
