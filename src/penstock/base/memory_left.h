// Memory that is still to be had.
#pragma once

#include <cstddef>

#include "penstock/base/result.h"

namespace penstock {

/// Whether the process may map `bytes` more now. For what ends the process where memory runs out in
/// its middle, such as the libraries of others: it is refused beforehand.
/// \error kResourceExhausted  it may not.
Status check_memory_left(std::size_t bytes);

/// For a process that memory may end, by a limit that it set itself: from now on there and in what
/// it starts check_memory_left() refuses nothing. Call before other threads start.
void let_memory_run_out();

}  // namespace penstock
