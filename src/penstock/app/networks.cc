// Divides the build budget by the networks' time per frame, and builds one after the other.
#include "penstock/app/networks.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

#include "penstock/app/parts.h"
#include "penstock/base/files.h"
#include "penstock/session/identify.h"
#include "penstock/session/session.h"

namespace penstock::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kLeastNetwork = 1;     ///< Seconds of a network's budget.
constexpr double kNetworksShare = 0.8;  ///< Of the budget that is left, for building networks.

/// The states that lead from a network to itself, by its own names.
std::vector<plan::StateEdge> states_of(const App& app, const Node& node) {
  std::vector<plan::StateEdge> states;
  const auto begin = node.name + ".";
  for (const auto& state : app.states) {
    if (!state.from.starts_with(begin) || !state.to.starts_with(begin)) continue;
    states.push_back(
        {state.from.substr(begin.size()), state.to.substr(begin.size()), state.initial.string()});
  }
  return states;
}

class Networks {
 public:
  Networks(const Tuning& tuning, const plan::Package& written, const Recording& recording,
           tune::Report& report)
      : tuning_(tuning), written_(written), recording_(recording), report_(report) {}

  Result<BuiltNetworks> build_all();

 private:
  Result<Node> build(const Node& node, double budget);
  void keep(tune::Report network, const Node& node) {
    network.node = node.name;
    report_.networks.push_back(std::move(network));
  }
  void keep_earlier(const Node& node);

  const Tuning& tuning_;
  const plan::Package& written_;
  const Recording& recording_;
  tune::Report& report_;
  std::vector<std::shared_ptr<const void>> files_;
};

/// The node, with a package in the place of its model.
Result<Node> Networks::build(const Node& node, double budget) {
  auto network = std::get<Network>(node.runs);
  auto options = tuning_.options;
  options.import = network.import;
  options.custom_ops = network.split.custom_ops;
  options.states = states_of(tuning_.app, node);
  options.begin = Clock::now();
  options.budget_seconds = budget;
  options.budget_is_share = !network.build_budget;
  const auto* elsewhere = tuning_.elsewhere;
  if (elsewhere == nullptr) options.devices = tuning_.devices;
  options.progress = [&](const std::string& what, double) {
    tuning_.say(concat("node '", node.name, "': ", what));
  };
  options.on_write = [] {};
  PENSTOCK_TRY(const auto graph,
               import_model(network.model, network.import, tuning_.backends, options.custom_ops));
  PENSTOCK_TRY(options.frames,
               frames_of(tuning_, written_, recording_, node, graph, options.states));
  PENSTOCK_TRY(const auto folder, make_temporary_folder());
  options.output = *folder / "built";
  PENSTOCK_TRY(auto report,
               elsewhere != nullptr
                   ? elsewhere->build(graph, options)
                   : tune::build_model(graph, options, tuning_.backends, tuning_.database));
  report_.measured_parts += report.measured_parts;
  report_.measured_plans += report.measured_plans;
  report_.notes.push_back(concat("network '", node.name, "': '", report.chosen, "' by itself, ",
                                 report.period_seconds * 1e6, " us a frame"));
  for (const auto& note : report.notes) {
    if (elsewhere != nullptr) report_.notes.push_back(concat("network '", node.name, "': ", note));
  }
  keep(std::move(report), node);
  files_.push_back(folder);
  Node built = node;
  Network replaced;
  replaced.model = options.output;
  built.runs = std::move(replaced);
  return built;
}

/// Of a network that was built before.
void Networks::keep_earlier(const Node& node) {
  const auto* network = std::get_if<Network>(&node.runs);
  if (network == nullptr || identify(network->model) != FileKind::kPackage) return;
  auto report = tune::read_report(network->model);
  if (report) keep(*std::move(report), node);  // Others were not built.
}

/// Each by the share of the time that it takes as it is written.
Result<BuiltNetworks> Networks::build_all() {
  std::vector<const Node*> open;
  std::map<const Node*, double> weights;
  double all = 0;
  for (const auto& node : tuning_.app.nodes) {
    keep_earlier(node);
    if (!std::holds_alternative<Network>(node.runs) || is_fixed(node)) continue;
    open.push_back(&node);
    all += weights[&node] = std::max(recording_.seconds.at(node.name), 1e-6);
  }
  if (tuning_.elsewhere != nullptr && open.empty()) {
    return make_error(Code::kFailedPrecondition, "'", tuning_.app.name,
                      "': no network is left to be built over hosts: each says how it is split or "
                      "where it runs");
  }
  const double budget =
      std::max(0.0, (tuning_.options.budget_seconds - tuning_.spent() - tuning_.race_seconds()) *
                        kNetworksShare);
  App tuned = tuning_.app;
  for (const auto* node : open) {
    const auto own = std::get<Network>(node->runs).build_budget;
    auto built = build(*node, own.value_or(std::max(kLeastNetwork, budget * weights[node] / all)));
    if (!built) return std::move(built).error().within(place_of(*node, "network"));
    *std::ranges::find(tuned.nodes, node->name, &Node::name) = *std::move(built);
  }
  PENSTOCK_TRY(auto package, pack(tuned, tuning_.backends, tuning_.functions));
  return BuiltNetworks{std::move(package), std::move(files_)};
}

}  // namespace

Result<BuiltNetworks> build_networks(const Tuning& tuning, const plan::Package& written,
                                     const Recording& recording, tune::Report& report) {
  return Networks(tuning, written, recording, report).build_all();
}

}  // namespace penstock::app
