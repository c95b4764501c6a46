// What the chosen plan is made of, and why.
#pragma once

#include <vector>

#include "penstock/build/contest.h"
#include "penstock/build/gate.h"
#include "penstock/build/parts.h"
#include "penstock/build/report.h"

namespace penstock::build {

/// What a search knows at its end.
struct Findings {
  const graph::Graph& graph;  ///< That the chosen plan is a split of.
  const Options& options;
  const std::vector<device::Device>& devices;
  const Contest& contest;
  const Parts& parts;
  const Gate& gate;
};

/// Adds to a report all but its comparison with the simple ways, and the notes that it has.
/// \pre findings.contest.best(), and report.simple ends with the chosen plan
void describe(const Findings& findings, Report& report);

}  // namespace penstock::build
