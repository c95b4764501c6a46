// penstock build --hosts: from a model and hosts to the pipeline over them that measured best.
#pragma once

#include <vector>

#include "penstock/app/app.h"
#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/function/function.h"
#include "penstock/graph/graph.h"
#include "penstock/hosts/hosts.h"
#include "penstock/hosts/worker.h"
#include "penstock/tune/build.h"

namespace penstock::site {

struct Options {
  tune::Options build;   ///< Without devices, rules, bounds of parts, and libraries of operators.
  bool standby = false;  ///< Each stage gets the device of another host that takes over.
};

/// Asks the workers what they are, measures the links, and on each kind of host what the network
/// takes with each backend; plans pipelines over the hosts by that, and lets them run there, in
/// turn with the simple ways: the whole network on one host, and on each. The fastest that gives
/// the reference's outputs, computed here, is written with its reasons.
///
/// Hosts that cannot be reached are left out, with a note. What was measured of hosts and links is
/// kept in the database; plans are run each time. The package names no files of connections: who
/// runs it says them, as for hosts::Host::connection.
/// \error kUnavailable         no host can be reached
///        kFailedPrecondition  no backend runs the network on them, or no host can stand by
///        kInvalidArgument     an option that hosts have no use for
/// \error as tune::build_model()
/// \threads  measures on a thread of its own.
Result<tune::Report> build_over(const graph::Graph& graph, hosts::Hosts hosts,
                                const hosts::Reach& reach, const Options& options,
                                const backend::Registry& backends, cost::Database& database);

/// The same for an application: each network that says nothing of how it is split is built over the
/// hosts on what comes to it, functions run here; then the whole runs beside the simple ways of
/// this machine. Two networks may share a host.
/// \error as build_over() and app::build_app()
Result<tune::Report> build_app_over(const app::App& application, const hosts::Hosts& hosts,
                                    const hosts::Reach& reach, const Options& options,
                                    const backend::Registry& backends, cost::Database& database,
                                    const std::vector<function::Function>& functions = {});

}  // namespace penstock::site
