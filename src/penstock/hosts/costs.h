// What the nodes of a network take on each kind of host, measured there.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cost/database.h"
#include "penstock/cost/graph_problem.h"
#include "penstock/graph/graph.h"
#include "penstock/hosts/survey.h"

namespace penstock::hosts {

struct MeasureOptions {
  std::string backend = "onnxruntime";
  std::map<std::string, std::string> backend_options;
  std::vector<std::filesystem::path> custom_ops;  ///< Each worker must allow native code.
  double seconds = 60;                            ///< For all hosts, which measure at once.
  bool refresh = false;                           ///< What the database has is measured again.
  std::function<bool()> stop;
  std::function<void(const std::string&)> warn;
};

/// For each kind, by the first host of it that has the largest share of its CPUs' time: the network
/// as a whole, and runs of its nodes, of which each node gets its share. All kinds measure at once.
/// Callbacks are called by any thread, one at a time. What the database has is
/// not measured again; what is measured is kept there by the host's fingerprint. Kinds of which no
/// host could be reached are left out. `hosts` are completed. \error as cost::Profiler::measure()
Result<std::map<std::string, cost::NodeCosts>> measure_costs(const graph::Graph& graph,
                                                             const Hosts& hosts, Survey& survey,
                                                             const backend::Registry& backends,
                                                             cost::Database* database,
                                                             const MeasureOptions& options);

}  // namespace penstock::hosts
