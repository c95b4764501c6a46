// What the chosen plan is made of, and why.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "penstock/partition/split.h"
#include "penstock/tune/accelerators.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/gate.h"
#include "penstock/tune/parts.h"
#include "penstock/tune/report.h"

namespace penstock::tune {

/// What a search knows at its end.
struct Findings {
  const graph::Graph& graph;  ///< That the chosen plan is a split of.
  const Options& options;
  const std::vector<device::Device>& devices;
  const std::vector<std::string>& kinds;  ///< device::kinds_of() them.
  const Contest& contest;
  const Parts& parts;
  const Gate& gate;
  const std::vector<Accelerators>& accelerators;
  bool on_cpus = true;  ///< Context::on_cpus
};

/// Seconds a frame that no plan like the contestant takes less than, by the least that any cover of
/// the measured parts takes on the first device; 0: not known. It holds for plans of the clean
/// import whose stages stand on one device each and take one frame in a call, and where all devices
/// are of one kind: of others nothing was measured. \pre  a kind for each device
double least_period(double least_cover, const std::vector<device::Device>& devices,
                    const std::vector<std::string>& kinds, const Contestant& contestant);

/// Adds to a report what is allowed in each output, and where the judge is not sure of the chosen
/// plan: measure::Verdict::doubts().
void describe_outputs(const measure::Judge& judge, const std::map<std::string, std::string>& doubts,
                      Report& report);

/// Report::model: the file's name, without its folder.
std::string model_name(const graph::Graph& graph);

/// Adds to a report all but its comparison with the simple ways, and the notes that it has.
/// \pre findings.contest.best(), and report.comparison has the chosen plan
void describe(const Findings& findings, Report& report);

/// The pieces of it. Of all nodes, with their share of the time.
std::vector<NodeReport> nodes_of(const graph::Graph& graph, const std::vector<double>& seconds);
/// What a backend runs of a stage; the nodes are told where they are. Without trials and reason.
PartReport part_report(const partition::ChosenPart& chosen, int stage,
                       std::vector<NodeReport>& nodes);

/// The chosen plan as it is split and written: its stages with what each was measured to take, what
/// the report foretells of all, and the report itself as build.json.
partition::SplitOptions split_options(const Entry& chosen, const Report& report,
                                      std::vector<std::filesystem::path> custom_ops);

}  // namespace penstock::tune
