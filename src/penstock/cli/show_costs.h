// penstock show --costs: what each node takes, and the least that the machine needs for it.
#pragma once

#include <filesystem>
#include <string>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/cli/json.h"
#include "penstock/graph/graph.h"

namespace penstock::cli {

/// Operations and bytes of each node by itself, with the least time that one CPU of this machine
/// needs for them. Measures the CPU's peaks where they are not known.
/// \error those of cost::peaks_of_machine()
Result<std::string> model_costs_text(const graph::Graph& graph, const backend::Registry& backends);
Result<Json> model_costs_json(const graph::Graph& graph, const backend::Registry& backends);

/// The measured time of each node of a built package beside that least time.
/// \error kNotFound  the package was not built
Result<std::string> package_costs_text(const std::filesystem::path& package);
Result<Json> package_costs_json(const std::filesystem::path& package);

}  // namespace penstock::cli
