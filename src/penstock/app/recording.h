// What passes between the nodes of an application, frame by frame. Internal to app.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/app/tuning.h"
#include "penstock/graph/graph.h"
#include "penstock/measure/side.h"
#include "penstock/plan/package.h"
#include "penstock/tensor/tensor.h"

namespace penstock::app {

struct Recording {
  measure::Ring ring;                                  ///< Frames that come out.
  std::vector<std::map<std::string, Tensor>> between;  ///< By frame: what stages wrote.
  std::map<std::string, double> seconds;               ///< That a frame takes, by stage.
  std::string left_out;                                ///< How many frames, and why; or empty.
};

/// Runs the application as it is written, frame by frame. Those that a function drops, or that
/// fail, are left out. \error  none comes out: of the first.
Result<Recording> record(const Tuning& tuning, const plan::Package& written,
                         const measure::Ring& frames);

/// What came to a network, frame by frame; of what did not, random values. `states` lead from it to
/// itself, by its own names.
Result<measure::Ring> frames_of(const Tuning& tuning, const plan::Package& written,
                                const Recording& recording, const Node& node,
                                const graph::Graph& graph,
                                const std::vector<plan::StateEdge>& states);

}  // namespace penstock::app
