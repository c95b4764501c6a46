// A picture of an answer, as SVG.
#pragma once

#include <string>

#include "penstock/planner/answer.h"

namespace penstock::planner {

/// Above, the graph: a dot for each group, coloured by its device (or by those of all replicas),
/// left to right by its depth, with the values as lines. Below, each device's load as a bar of
/// compute, receiving and sending, with the answer's cost (the period, or the latency where that is
/// the goal) and its lower bound drawn in, and a legend of the two.
std::string to_svg(const Problem& problem, const Options& options, const Answer& answer);

}  // namespace penstock::planner
