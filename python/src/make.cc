#include "make.h"

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "dicts.h"
#include "errors.h"
#include "gil.h"
#include "penstock/cost/database.h"
#include "penstock/cost/machine.h"
#include "penstock/cost/peaks_json.h"
#include "penstock/partition/resolve.h"
#include "penstock/session/identify.h"
#include "penstock/session/load.h"
#include "penstock/session/plan_model.h"
#include "penstock/session/refused_node.h"
#include "penstock/session/session.h"
#include "request.h"

namespace penstock::python {
namespace {

namespace fs = std::filesystem;

Result<PlanModelOptions> to_planning(const Options& options, const SplitRequest& request) {
  PlanModelOptions planning;
  planning.devices = request.split.devices;
  planning.costs.backend = request.split.backend;
  planning.states = request.states;
  const auto goal = options.get<std::string>("goal");
  if (goal != "throughput" && goal != "latency") {
    return invalid_argument("goal: expected 'throughput' or 'latency', found '", goal, "'");
  }
  auto& search = planning.search;
  search.goal = goal == "latency" ? planner::Goal::kLatency : planner::Goal::kThroughput;
  search.replicas = options.get<bool>("may_replicate");
  search.segments_per_device = options.get<int>("segments_per_device");
  search.seconds = options.get<double>("deadline");
  if (!(search.seconds >= 0)) {
    return invalid_argument("deadline: expected 0 or more seconds, found ", search.seconds);
  }
  if (const auto cap = options.maybe<double>("latency_cap")) search.latency_cap = *cap;
  return planning;
}

Result<graph::Graph> import(SplitRequest& request, std::vector<std::string>& warnings) {
  PENSTOCK_TRY(request.import.engine, make_engine(backends(), request.split.custom_ops));
  auto graph = request.model.bytes
                   ? graph::import_onnx_bytes(*request.model.bytes, {}, request.import)
                   : graph::import_onnx(request.model.file, request.import);
  if (graph && graph->import.not_folded) {
    warnings.emplace_back(
        "no engine is here to evaluate constants (see penstock.backends()): names and indices of "
        "nodes may differ from an import with one");
  }
  if (!graph) return graph;
  auto refusal = foretell_refusal(*graph, backends(), request.split.custom_ops);
  if (!refusal.empty()) warnings.push_back(std::move(refusal));
  return graph;
}

/// The stages that the request names, or those that the planner finds.
Result<partition::SplitOptions> to_split(const SplitRequest& request, const graph::Graph& graph,
                                         const Abandoned& abandoned) {
  partition::SplitOptions split = request.split;
  if (!request.planning) {
    PENSTOCK_TRY(split.by, to_split_by(request));
    return split;
  }
  auto planning = *request.planning;
  planning.search.interrupted = abandoned;
  for (const auto& [name, text] : request.pins) {
    PENSTOCK_TRY(const auto node, partition::resolve_node(graph, name, "pin"));
    PENSTOCK_TRY(auto device, device::parse_device(text));
    planning.costs.pins.emplace_back(node, std::move(device));
  }
  PENSTOCK_TRY(const auto planned, plan_model(graph, planning));
  PENSTOCK_TRY(split.by, chosen_stages_of(planned));
  return split;
}

Status make(SplitRequest request, Made& made, const Abandoned& abandoned) {
  if (const auto found = backends().find(request.split.backend); !found) return found.error();
  PENSTOCK_TRY(const auto graph, import(request, made.warnings));
  PENSTOCK_TRY(auto split, to_split(request, graph, abandoned));
  if (!request.planning && split.devices.empty()) {
    // Named, so that pack_model() does not take it for a wish for one replica on each.
    PENSTOCK_TRY(split.devices, device::parse_devices("all"));
  }
  plan::Package package;
  if (request.output.empty()) {
    PENSTOCK_TRY(package, pack_model(graph, split, backends(), request.states, request.run.stream));
  } else {
    const auto plan =
        split_model(graph, split, request.run.stream, request.output, backends(), request.states);
    if (!plan) return plan.error();
    PENSTOCK_TRY(package, load_package(request.output));
  }
  for (const auto& stage : partition::lanes_left_out(split.lanes, package.plan)) {
    made.warnings.push_back(concat("lanes ", split.lanes.at(""), ": ", stage));
  }
  return start(std::move(package), std::move(request.run), made);
}

Status load(const fs::path& path, RunOptions run, Made& made) {
  std::error_code ignored;
  if (identify(path) != FileKind::kPackage && fs::is_regular_file(path, ignored)) {
    return invalid_argument("'", path.string(),
                            "': expected a package (a folder or zip), found another file; "
                            "penstock.split() takes models");
  }
  PENSTOCK_TRY(auto package, load_package(path));
  return start(std::move(package), std::move(run), made);
}

nb::object split(nb::handle model, nb::dict options) {
  auto request = value_or_raise(to_request(model, Options(std::move(options))));
  return make_aside([request = std::move(request)](Made& made, const Abandoned& abandoned) {
    return make(request, made, abandoned);
  });
}

nb::object plan_and_start(nb::handle model, nb::dict dict) {
  const Options options(std::move(dict));
  auto request = value_or_raise(to_request(model, options));
  auto planning = value_or_raise(to_planning(options, request));
  request.planning = std::move(planning);
  return make_aside([request = std::move(request)](Made& made, const Abandoned& abandoned) {
    return make(request, made, abandoned);
  });
}

nb::object load_and_start(nb::handle file, nb::dict dict) {
  const Options options(std::move(dict));
  auto run = value_or_raise(to_run_options(options));
  run.callables = value_or_raise(to_callables(options.get<nb::list>("functions")));
  return make_aside([path = fs::path(text_of(file)), run = std::move(run)](
                        Made& made, const Abandoned&) { return load(path, run, made); });
}

nb::dict devices(bool peaks, bool refresh) {
  nb::dict dict = devices_dict(value_or_raise(without_gil([] { return device::read_topology(); })));
  nb::list accelerators;
  for (const auto& [device, name, backend] :
       without_gil([] { return backends().accelerators(); })) {
    nb::dict accelerator;
    accelerator["device"] = device;
    accelerator["name"] = name;
    accelerator["backend"] = backend;
    accelerators.append(accelerator);
  }
  dict["accelerators"] = accelerators;
  if (!peaks) return dict;
  const auto measure = [&]() -> Result<std::vector<cost::DevicePeaks>> {
    PENSTOCK_TRY(auto database, cost::Database::open(cost::Database::default_path()));
    return cost::peaks_of_machine(backends(), database, refresh);
  };
  const auto text = cost::to_json(value_or_raise(without_gil(measure)));
  dict["peaks"] = nb::module_::import_("json").attr("loads")(text);
  return dict;
}

}  // namespace

void bind_make(nb::module_& module) {
  module.def("split", &split, nb::arg("model"), nb::arg("options"));
  module.def("plan", &plan_and_start, nb::arg("model"), nb::arg("options"));
  module.def("load", &load_and_start, nb::arg("path"), nb::arg("options"));
  module.def("devices", &devices, nb::arg("peaks"), nb::arg("refresh"));
  module.def("backends", [] { return backends_dict(backends()); });
}

}  // namespace penstock::python
