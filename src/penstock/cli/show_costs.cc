// A model's costs are counted and bounded by peaks; a package's are read from its report.
#include "penstock/cli/show_costs.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "penstock/cli/interrupt.h"
#include "penstock/cli/text.h"
#include "penstock/cost/database.h"
#include "penstock/cost/machine.h"
#include "penstock/cost/work.h"
#include "penstock/tune/report.h"

namespace penstock::cli {
namespace {

/// A network on one CPU.
struct ModelCosts {
  cost::DevicePeaks roof;
  cost::Work all;
  cost::Limit limit;                ///< Of the whole.
  std::vector<cost::Work> nodes;    ///< Each by itself.
  std::vector<cost::Limit> limits;  ///< The same.
};

cost::Limit limit_of(const cost::Work& work, const cost::Peaks& peaks) {
  return cost::limit_of(work, peaks.flops_per_second(),
                        peaks.level_of(work.bytes)->bytes_per_second);
}

Result<ModelCosts> costs_of(const graph::Graph& graph, const backend::Registry& backends) {
  PENSTOCK_TRY(auto database, cost::Database::open(cost::Database::default_path()));
  const InterruptGuard guard;
  PENSTOCK_TRY(const auto machine, cost::peaks_of_machine(backends, database, false, interrupted));
  ModelCosts costs{.roof = machine.front()};
  std::vector<graph::NodeId> all;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    all.push_back(static_cast<graph::NodeId>(i));
    costs.nodes.push_back(cost::work_of(graph, std::vector{all.back()}).all);
    costs.limits.push_back(limit_of(costs.nodes.back(), costs.roof.peaks));
  }
  costs.all = cost::work_of(graph, all).all;
  costs.limit = limit_of(costs.all, costs.roof.peaks);
  return costs;
}

std::string bound_of(const cost::Limit& limit) {
  return limit.seconds <= 0 ? "-" : limit.by_memory ? "moving" : "computing";
}

Json to_json(const cost::Work& work, const cost::Limit& limit) {
  return {
      {"flops", work.flops}, {"other_flops", work.other_flops}, {"counted", work.uncounted == 0},
      {"bytes", work.bytes}, {"limit_seconds", limit.seconds},  {"bound", bound_of(limit)}};
}

std::string operations(const cost::Work& work) {
  if (work.uncounted > 0) return "?";
  return number((work.flops + work.other_flops) * 1e-6, 3);
}

}  // namespace

Result<std::string> model_costs_text(const graph::Graph& graph, const backend::Registry& backends) {
  PENSTOCK_TRY(const auto costs, costs_of(graph, backends));
  const auto& peaks = costs.roof.peaks;
  std::string text = concat("\nat least, on ", device::to_string(costs.roof.device), " (",
                            number(peaks.flops_per_second() * 1e-9, 1), " GFLOP/s of fp32, ",
                            number(peaks.levels.back().bytes_per_second * 1e-9, 1),
                            " GB/s from memory): ", duration(costs.limit.seconds * 1e9),
                            " a frame, by ", bound_of(costs.limit), "\n");
  Table table({">index", "name", "op", ">million operations", ">to move", ">at least", "by"});
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    table.add({std::to_string(i), graph.nodes[i].name, graph.nodes[i].op,
               operations(costs.nodes[i]), bytes(static_cast<std::uint64_t>(costs.nodes[i].bytes)),
               duration(costs.limits[i].seconds * 1e9), bound_of(costs.limits[i])});
  }
  return text + table.print();
}

Result<Json> model_costs_json(const graph::Graph& graph, const backend::Registry& backends) {
  PENSTOCK_TRY(const auto costs, costs_of(graph, backends));
  Json nodes = Json::array();
  for (std::size_t i = 0; i < costs.nodes.size(); ++i) {
    nodes.push_back(to_json(costs.nodes[i], costs.limits[i]));
  }
  return Json{{"device", device::to_string(costs.roof.device)},
              {"all", to_json(costs.all, costs.limit)},
              {"nodes", std::move(nodes)}};
}

Result<std::string> package_costs_text(const std::filesystem::path& package) {
  PENSTOCK_TRY(const auto report, tune::read_report(package));
  std::string text = "\n";
  if (report.limit.seconds > 0) {
    text += concat("measured: ", number(report.fraction_of_limit() * 100, 1),
                   " % of what the devices together could do\n");
  }
  Table table({">index", "name", "op", ">stage", "backend", ">time", ">at least", ">of the limit"});
  for (std::size_t i = 0; i < report.nodes.size(); ++i) {
    const auto& node = report.nodes[i];
    const bool known = node.limit_seconds > 0 && node.seconds > 0;
    table.add({std::to_string(i), node.name, node.op, std::to_string(node.stage), node.backend,
               duration(node.seconds * 1e9), known ? duration(node.limit_seconds * 1e9) : "-",
               known ? number(node.limit_seconds / node.seconds * 100, 1) + " %" : "-"});
  }
  return text + table.print();
}

Result<Json> package_costs_json(const std::filesystem::path& package) {
  PENSTOCK_TRY(const auto report, tune::read_report(package));
  Json nodes = Json::array();
  for (const auto& node : report.nodes) {
    nodes.push_back({{"name", node.name},
                     {"op", node.op},
                     {"stage", node.stage},
                     {"backend", node.backend},
                     {"seconds", node.seconds},
                     {"limit_seconds", node.limit_seconds}});
  }
  return Json{{"fraction_of_limit", report.fraction_of_limit()},
              {"limit_seconds", report.limit.seconds},
              {"nodes", std::move(nodes)}};
}

}  // namespace penstock::cli
