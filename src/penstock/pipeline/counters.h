// Counters: sums of what contexts count.
#pragma once

#include "penstock/backend/backend.h"

namespace penstock::pipeline {

using Counters = backend::Context::Counters;

inline void add(Counters& sum, const Counters& more) {
  sum.copies += more.copies;
  sum.allocations += more.allocations;
}

/// Adds what the context has counted since `at_start`.
inline void add_since(Counters& sum, const Counters& at_start, const backend::Context& context) {
  const Counters now = context.counters();
  add(sum, {now.copies - at_start.copies, now.allocations - at_start.allocations});
}

}  // namespace penstock::pipeline
