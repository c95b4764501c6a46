// An answer of the planner as JSON and as text.
#pragma once

#include <string>

#include "penstock/cli/json.h"
#include "penstock/hosts/plan.h"
#include "penstock/planner/answer.h"
#include "penstock/planner/report/pareto.h"
#include "penstock/planner/report/what_if.h"

namespace penstock::cli {

/// {"period", "latency", "lower_bound", "gap", "proved", "seconds", "binding", "runner_up",
///  "baselines": {name: cost}, "devices": [{"name", "type", "load", "memory", "segments"}],
///  "notes": [sentences]}
/// A segment is the node ids of one stage; what does not exist or is infinite is null. The
/// runner-up and the plans of a front have "stages": [{"devices": [names], "nodes": [ids]}].
Json answer_json(const planner::Problem& problem, const planner::Options& options,
                 const planner::Answer& answer);
Json what_if_json(const std::vector<planner::WhatIf>& items);
Json pareto_json(const planner::Problem& problem, const std::vector<planner::ParetoPoint>& front);

/// [{"name", "load"}]: how long each link is busy with a frame.
Json wires_json(const std::vector<hosts::WireLoad>& wires);

/// "plan  period 12.3, at least 11.9, gap 3.36 %", while the search goes on.
std::string bounds_text(const planner::Options& options, bool in_seconds, double lower_bound,
                        double cost);

/// Answers as text for people, times with their unit where the problem tells it.
std::string answer_text(const planner::Problem& problem, const planner::Options& options,
                        const planner::Answer& answer);
std::string what_if_text(const planner::Problem& problem, const std::vector<planner::WhatIf>& items,
                         const planner::Answer& answer);
std::string wires_text(const std::vector<hosts::WireLoad>& wires, const planner::Answer& answer);
std::string pareto_text(const planner::Problem& problem,
                        const std::vector<planner::ParetoPoint>& front);

}  // namespace penstock::cli
