// Tables of devices with their loads, baselines, answers to what-if, links and a Pareto front.
#include "penstock/cli/plan_report.h"

#include <algorithm>
#include <cmath>

#include "penstock/cli/text.h"
#include "penstock/planner/report/explain.h"

namespace penstock::cli {
namespace {

/// Writes times as the problem has them.
auto times_of(const planner::Problem& problem) {
  return [seconds = problem.in_seconds](double time) { return planner::cost_text(time, seconds); };
}

Json number_json(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

/// What one device does, in the order of the table.
struct Row {
  std::string name, type;
  planner::DeviceLoad load;
  std::vector<const planner::Stage*> stages;
};

/// One row for each device and each unlimited type.
std::vector<Row> rows_of(const planner::Problem& problem, const planner::Split& split,
                         const planner::Evaluation& evaluation) {
  std::vector<Row> rows;
  int device = 0;
  for (std::size_t t = 0; t < problem.types.size(); ++t) {
    const auto& type = problem.types[t];
    if (type.unlimited) {
      Row row{type.name, type.name, {}, {}};
      for (const auto& stage : split.stages) {
        const auto mode = static_cast<std::size_t>(stage.mode);
        if (problem.modes[mode].type != static_cast<int>(t)) continue;
        row.stages.push_back(&stage);
        for (const int group : stage.groups) {
          const auto& item = problem.groups[static_cast<std::size_t>(group)];
          row.load.compute += item.time[mode];
          row.load.memory += item.memory;
        }
      }
      row.load.load = planner::kInfinite;  // Counts nowhere.
      rows.push_back(std::move(row));
    }
    for (const auto& name : type.devices) {
      Row row{name, type.name, evaluation.devices[static_cast<std::size_t>(device)], {}};
      for (const auto& stage : split.stages) {
        if (std::ranges::count(stage.devices, device) > 0) row.stages.push_back(&stage);
      }
      rows.push_back(std::move(row));
      ++device;
    }
  }
  return rows;
}

std::vector<int> nodes_of(const planner::Problem& problem, const planner::Stage& stage) {
  std::vector<int> nodes;
  for (const int group : stage.groups) {
    const auto& own = problem.groups[static_cast<std::size_t>(group)].nodes;
    nodes.insert(nodes.end(), own.begin(), own.end());
  }
  return nodes;
}

/// Each stage with its devices: one for each replica, or the name of a type without limit.
Json assigned_stages_json(const planner::Problem& problem, const planner::Split& split) {
  std::vector<std::string> names;
  for (const auto& type : problem.types) {
    names.insert(names.end(), type.devices.begin(), type.devices.end());
  }
  Json stages = Json::array();
  for (const auto& stage : split.stages) {
    Json devices = Json::array();
    for (const int device : stage.devices) {
      devices.push_back(names[static_cast<std::size_t>(device)]);
    }
    if (stage.devices.empty()) {
      const auto& mode = problem.modes[static_cast<std::size_t>(stage.mode)];
      devices.push_back(problem.types[static_cast<std::size_t>(mode.type)].name);
    }
    stages.push_back({{"devices", std::move(devices)}, {"nodes", nodes_of(problem, stage)}});
  }
  return stages;
}

Json devices_json(const planner::Problem& problem, const planner::Split& split,
                  const planner::Evaluation& evaluation) {
  Json devices = Json::array();
  for (const auto& row : rows_of(problem, split, evaluation)) {
    Json segments = Json::array();
    for (const auto* stage : row.stages) segments.push_back(nodes_of(problem, *stage));
    devices.push_back({{"name", row.name},
                       {"type", row.type},
                       {"load", number_json(row.load.load)},
                       {"memory", row.load.memory},
                       {"segments", std::move(segments)}});
  }
  return devices;
}

std::string bytes_text(double count) {
  if (count >= 1e18) return concat(count, " B");  // More than the integers hold.
  return bytes(static_cast<std::uint64_t>(count));
}

std::string at_least_text(const planner::Problem& problem, const planner::ParetoPoint& point) {
  if (point.proved) return "proved";
  return point.lower_bound > 0 ? times_of(problem)(point.lower_bound) : "not known";
}

/// "7.1 (-11.25 %), proved".
std::string change_text(const planner::Problem& problem, const planner::WhatIf& item,
                        const planner::Answer& answer) {
  const auto time = times_of(problem);
  double change = answer.cost > 0 ? 100 * (item.cost / answer.cost - 1) : 0;
  if (std::abs(change) < 0.005) change = 0;  // No "-0".
  auto text = concat(time(item.cost), " (", change > 0 ? "+" : "", number(change, 2), " %), ");
  if (item.proved) {
    text += "proved";
  } else if (std::isfinite(item.gap)) {
    text += concat("at least ", time(item.lower_bound), ", gap ", number(100 * item.gap, 2), " %");
  } else {
    text += "no bound yet";
  }
  if (change < 0 && !item.certain_gain) {
    text += concat("; without the change it may be as good, at least ", time(answer.lower_bound));
  }
  return text;
}

}  // namespace

Json answer_json(const planner::Problem& problem, const planner::Options& options,
                 const planner::Answer& answer) {
  Json runner_up = nullptr;
  if (answer.runner_up) {
    const auto found = planner::evaluate(problem, answer.runner_up->split);
    runner_up = {{"period", found.period},
                 {"latency", found.latency},
                 {"stages", assigned_stages_json(problem, answer.runner_up->split)}};
  }
  Json baselines = Json::object(), why_not = Json::object();
  for (const auto& baseline : answer.baselines) {
    const double cost = planner::cost_of(baseline.evaluation, options.goal);
    baselines[baseline.name] = baseline.why_not.empty() ? number_json(cost) : Json(nullptr);
    if (!baseline.why_not.empty()) why_not[baseline.name] = baseline.why_not;
  }
  return {{"period", answer.evaluation.period},
          {"latency", answer.evaluation.latency},
          {"lower_bound", answer.lower_bound},
          {"gap", number_json(answer.gap)},
          {"proved", answer.proved},
          {"seconds", answer.seconds},
          {"binding", planner::to_string(answer.binding)},
          {"runner_up", std::move(runner_up)},
          {"baselines", std::move(baselines)},
          {"baselines_why_not", std::move(why_not)},
          {"stages", assigned_stages_json(problem, answer.split)},
          {"devices", devices_json(problem, answer.split, answer.evaluation)},
          {"notes", problem.notes}};
}

Json what_if_json(const std::vector<planner::WhatIf>& items) {
  Json json = Json::array();
  for (const auto& item : items) {
    json.push_back({{"change", item.change},
                    {"cost", number_json(item.cost)},
                    {"lower_bound", item.lower_bound},
                    {"gap", number_json(item.gap)},
                    {"proved", item.proved},
                    {"certain_gain", item.certain_gain},
                    {"why_not", item.why_not.empty() ? Json(nullptr) : Json(item.why_not)}});
  }
  return json;
}

Json pareto_json(const planner::Problem& problem, const std::vector<planner::ParetoPoint>& front) {
  Json json = Json::array();
  for (const auto& point : front) {
    json.push_back({{"period", point.period},
                    {"latency", point.latency},
                    {"devices", point.devices},
                    {"memory", point.memory},
                    {"lower_bound", point.lower_bound},
                    {"proved", point.proved},
                    {"stages", assigned_stages_json(problem, point.split)}});
  }
  return json;
}

Json wires_json(const std::vector<hosts::WireLoad>& wires) {
  Json json = Json::array();
  for (const auto& wire : wires) json.push_back({{"name", wire.name}, {"load", wire.seconds}});
  return json;
}

std::string bounds_text(const planner::Options& options, bool in_seconds, double lower_bound,
                        double cost) {
  const auto* goal = options.goal == planner::Goal::kLatency ? "latency " : "period ";
  auto text = concat("plan  ", goal, planner::cost_text(cost, in_seconds), ", at least ",
                     planner::cost_text(lower_bound, in_seconds));
  if (std::isfinite(cost) && lower_bound > 0) {
    text += concat(", gap ", number(100 * (cost / lower_bound - 1), 2), " %");
  }
  return text;
}

std::string answer_text(const planner::Problem& problem, const planner::Options& options,
                        const planner::Answer& answer) {
  const auto time = times_of(problem);
  Table table({"device", ">load", ">compute", ">in", ">out", ">memory", ">segments", ">nodes"});
  for (const auto& row : rows_of(problem, answer.split, answer.evaluation)) {
    std::size_t nodes = 0;
    for (const auto* stage : row.stages) nodes += nodes_of(problem, *stage).size();
    table.add({row.name, std::isfinite(row.load.load) ? time(row.load.load) : "-",
               time(row.load.compute), time(row.load.in), time(row.load.out),
               bytes_text(row.load.memory), std::to_string(row.stages.size()),
               std::to_string(nodes)});
  }
  return planner::explain(problem, options, answer) + "\n" + table.print();
}

std::string what_if_text(const planner::Problem& problem, const std::vector<planner::WhatIf>& items,
                         const planner::Answer& answer) {
  std::string text = "\nwhat if\n";
  if (items.empty()) return text + "  interrupted before the first was asked\n";
  for (const auto& item : items) {
    text += concat("  ", item.change, ": ",
                   item.why_not.empty() ? change_text(problem, item, answer) : item.why_not, "\n");
  }
  return text;
}

std::string wires_text(const std::vector<hosts::WireLoad>& wires, const planner::Answer& answer) {
  Table table({"shared", ">load", ">of the period"});
  for (const auto& wire : wires) {
    const double share = answer.evaluation.period > 0 ? wire.seconds / answer.evaluation.period : 0;
    table.add(
        {wire.name, planner::cost_text(wire.seconds, true), concat(number(100 * share, 1), " %")});
  }
  return "\n" + table.print();
}

std::string pareto_text(const planner::Problem& problem,
                        const std::vector<planner::ParetoPoint>& front) {
  const auto time = times_of(problem);
  Table table({">period", ">at least", ">latency", ">devices", ">memory of the fullest"});
  for (const auto& point : front) {
    table.add({time(point.period), at_least_text(problem, point), time(point.latency),
               std::to_string(point.devices), bytes_text(point.memory)});
  }
  return "\nplans found of which none is better in everything; there may be others\n" +
         table.print();
}

}  // namespace penstock::cli
