// A picture of an answer, as SVG.
#pragma once

#include <string>

#include "penstock/planner/answer.h"

namespace penstock::planner {

/// Above, the graph: a dot for each group, coloured by its device, left to right by its depth, with
/// the values as lines. Below, each device's load as a bar of compute, receiving and sending, with
/// the answer's period and its lower bound drawn in (with the latency goal: no bound).
std::string to_svg(const Problem& problem, const Options& options, const Answer& answer);

}  // namespace penstock::planner
