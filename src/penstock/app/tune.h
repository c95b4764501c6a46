// build_app(): an application whose networks, functions and devices are tuned together.
#pragma once

#include "penstock/app/app.h"
#include "penstock/tune/build.h"

namespace penstock::app {

/// Runs the application once and keeps what passes between its nodes; builds each network that says
/// nothing of how it is split, on what came to it and with its share of the budget; times every
/// stage on the first device; places all stages with the planner; and lets the plans run beside the
/// simple ways for applications. The fastest that gives the reference's outputs is written to
/// `options.output`, with its reasons. `options.import`, `states` and `custom_ops` are said at the
/// nodes.
/// \error as pack(); as build_model() of a network, with the node's place; kFailedPrecondition  no
/// frame comes out, or no plan runs: with the reasons.
Result<tune::Report> build_app(const App& app, const tune::Options& options,
                               const backend::Registry& backends, cost::Database& database);

}  // namespace penstock::app
