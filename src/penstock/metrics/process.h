// What this process takes of the machine.
#pragma once

#include <cstdint>

#include "penstock/metrics/families.h"

namespace penstock::metrics {

struct Process {
  std::uint64_t resident_bytes = 0;  ///< 0: not known.
  double cpu_seconds = 0;            ///< Of all its threads, in user and system mode.
};

Process read_process();

/// What read_process() says, with Prometheus' own names.
void add_process(Families& families);

}  // namespace penstock::metrics
