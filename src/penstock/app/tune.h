// build_app(): an application whose networks, functions and devices are tuned together.
#pragma once

#include <functional>
#include <vector>

#include "penstock/app/app.h"
#include "penstock/function/function.h"
#include "penstock/pipeline/pipeline.h"
#include "penstock/tune/build.h"

namespace penstock::app {

/// Machines that networks are built over in place of this one's devices.
struct Elsewhere {
  /// As tune::build_model(), whose options name no devices.
  std::function<Result<tune::Report>(const graph::Graph&, const tune::Options&)> build;
  pipeline::Options run;  ///< What pipelines need to reach them.
};

/// Runs the application once and keeps what passes between its nodes; builds each network that says
/// nothing of how it is split, on what came to it and with its share of the budget; times every
/// stage on the first device; places all stages with the planner; and lets the plans run beside the
/// simple ways for applications. The fastest that gives the reference's outputs is written to
/// `options.output`, with its reasons. `options.import`, `states` and `custom_ops` are said at the
/// nodes.
///
/// `functions`: what the program registers, which the application calls by name; they are timed and
/// placed like those of libraries, and who loads the package gives them again.
///
/// With `elsewhere` networks are built there, and stay where that put them; functions run here.
/// \error as pack() and frames::check_frames(); as build_model() of a network, with the node's
/// place; kFailedPrecondition  no frame comes out, no plan runs: with the reasons; or no network is
/// left to be built elsewhere.
Result<tune::Report> build_app(const App& app, const tune::Options& options,
                               const backend::Registry& backends, cost::Database& database,
                               const std::vector<function::Function>& functions = {},
                               const Elsewhere* elsewhere = nullptr);

}  // namespace penstock::app
