// Which nodes an application fixes, what of the budget is spent, and how pipelines are started.
#include "penstock/app/tuning.h"

#include <algorithm>
#include <chrono>
#include <variant>

#include "penstock/app/parts.h"
#include "penstock/plan/stream_options.h"
#include "penstock/session/identify.h"

namespace penstock::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kRaceShare = 0.15;  ///< Of the budget, for which the plans run beside each other;
constexpr double kLeastRace = 2;     ///< but so many seconds at least,
constexpr double kMostRace = 12;     ///< and no more than these.

}  // namespace

const Node& Tuning::node_of(const plan::Stage& stage) const {
  return *std::ranges::find_if(app.nodes,
                               [&](const Node& node) { return belongs_to(stage.name, node); });
}

Result<std::unique_ptr<pipeline::Pipeline>> Tuning::start(
    plan::Plan plan, const std::filesystem::path& folder) const {
  plan::keep_all_frames(plan);
  auto settings = elsewhere == nullptr ? pipeline::Options() : elsewhere->run;
  settings.stopped = options.stopped;
  settings.functions = functions;
  return pipeline::Pipeline::start(plan, folder, backends, settings);
}

double Tuning::spent() const {
  return std::chrono::duration<double>(Clock::now() - options.begin).count();
}

double Tuning::race_seconds() const {
  return std::clamp(options.budget_seconds * kRaceShare, kLeastRace, kMostRace);
}

void Tuning::say(const std::string& what) const {
  options.progress(what, std::min(1.0, spent() / options.budget_seconds));
}

bool is_fixed(const Node& node) {
  if (std::holds_alternative<ServedNode>(node.runs)) return true;
  if (const auto* function = std::get_if<FunctionNode>(&node.runs)) {
    return !function->devices.empty() || function->replicas > 1;
  }
  const auto& network = std::get<Network>(node.runs);
  return !network.is_undecided() || identify(network.model) == FileKind::kPackage;
}

bool is_function(const plan::Stage& stage) {
  return stage.partitions.front().backend == plan::kFunctionBackend;
}

std::string devices_text(const std::vector<device::Device>& devices) {
  return join(devices, ",", [](const auto& device) { return device::to_string(device); });
}

Error stopped_early() {
  return make_error(
      Code::kCancelled,
      "stopped before the plans of the application were measured; nothing is written");
}

}  // namespace penstock::app
