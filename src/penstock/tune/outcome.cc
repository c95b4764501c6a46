// Writes and reads outcomes as JSON, and hashes all that a search depends on into its key.
#include "penstock/tune/outcome.h"

#include <fstream>
#include <iterator>

#include <nlohmann/json.hpp>

#include "penstock/base/hash.h"
#include "penstock/base/version.h"
#include "penstock/device/place.h"
#include "penstock/graph/subgraph.h"

namespace penstock::tune {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::uint32_t> indices(const std::vector<graph::NodeId>& nodes) {
  std::vector<std::uint32_t> numbers;
  for (const auto node : nodes) numbers.push_back(static_cast<std::uint32_t>(graph::index(node)));
  return numbers;
}

std::vector<graph::NodeId> nodes_of(const Json& json) {
  std::vector<graph::NodeId> nodes;
  for (const auto& number : json) nodes.push_back(graph::NodeId{number.get<std::uint32_t>()});
  return nodes;
}

Json stage_json(const partition::ChosenStage& stage) {
  Json devices = Json::array(), parts = Json::array();
  for (const auto& device : stage.devices) devices.push_back(device::to_string(device));
  for (const auto& part : stage.parts) {
    parts.push_back(
        {{"backend", part.backend}, {"options", part.options}, {"nodes", indices(part.nodes)}});
  }
  return {{"nodes", indices(stage.nodes)}, {"devices", devices}, {"parts", parts}};
}

Result<partition::ChosenStage> stage_of(const Json& json) {
  partition::ChosenStage stage;
  stage.nodes = nodes_of(json.at("nodes"));
  for (const auto& text : json.at("devices")) {
    PENSTOCK_TRY(auto devices, device::parse_devices(text.get<std::string>()));
    stage.devices.insert(stage.devices.end(), devices.begin(), devices.end());
  }
  for (const auto& part : json.at("parts")) {
    partition::ChosenPart chosen;
    part.at("backend").get_to(chosen.backend);
    part.at("options").get_to(chosen.options);
    chosen.nodes = nodes_of(part.at("nodes"));
    stage.parts.push_back(std::move(chosen));
  }
  return stage;
}

}  // namespace

std::string to_json(const Outcome& outcome) {
  Json stages = Json::array();
  for (const auto& stage : outcome.contestant.split.stages) stages.push_back(stage_json(stage));
  Json batches = Json::object();
  for (const auto& [stage, batch] : outcome.contestant.batches) batches[stage] = batch.frames;
  return Json{{"budget_seconds", outcome.budget_seconds},
              {"most_parts", outcome.most_parts},
              {"minimum_seconds", outcome.minimum_seconds},
              {"settled", outcome.settled},
              {"stale", outcome.stale.why},
              {"passed_by", outcome.stale.way},
              {"name", outcome.contestant.name},
              {"as_is", outcome.contestant.as_is},
              {"batches", batches},
              {"stages", stages},
              {"report", to_json(outcome.report)}}
      .dump();
}

Result<Outcome> outcome_from_json(std::string_view text) {
  Outcome outcome;
  try {
    const auto json = Json::parse(text);
    json.at("budget_seconds").get_to(outcome.budget_seconds);
    json.at("most_parts").get_to(outcome.most_parts);
    outcome.minimum_seconds = json.value("minimum_seconds", 0.0);
    outcome.settled = json.value("settled", false);
    outcome.stale = {json.value("stale", std::string()), json.value("passed_by", std::string())};
    json.at("name").get_to(outcome.contestant.name);
    json.at("as_is").get_to(outcome.contestant.as_is);
    const auto batches = json.value("batches", Json::object());
    for (const auto& [stage, frames] : batches.items()) {
      outcome.contestant.batches[stage] = {.frames = frames.get<int>()};
    }
    for (const auto& stage : json.at("stages")) {
      PENSTOCK_TRY(outcome.contestant.split.stages.emplace_back(), stage_of(stage));
    }
    PENSTOCK_TRY(outcome.report, report_from_json(json.at("report").get<std::string>()));
  } catch (const Json::exception& error) {
    return make_error(Code::kDataLoss, "outcome: ", error.what());
  }
  return outcome;
}

cost::PlanKey question_of(const graph::Graph& graph, const Options& options,
                          const std::vector<device::Device>& devices, const std::vector<Way>& ways,
                          const backend::Registry& backends, const measure::Ring& ring,
                          const device::Topology& topology) {
  Json question = {{"network", graph::canonical_hash(graph::Subgraph::whole(graph))},
                   {"goal", static_cast<int>(options.goal)},
                   {"settings", options.backend_options},
                   {"tolerance", options.tolerance.value_or(0)},
                   {"frames", frames::digest_of(ring)}};
  for (const auto& way : ways) question["ways"].push_back(way.name());
  for (const auto& state : options.states) {
    const auto initial = state.initial.empty() ? std::string() : sha256_of_file(state.initial);
    question["states"].push_back({state.from, state.to, initial ? *initial : state.initial});
  }
  for (const auto& device : devices) question["devices"].push_back(device::to_string(device));
  // Machines of one processor differ in what their CPUs share, and in memory.
  question["kinds"] = device::kinds_of(topology, devices);
  question["gigabytes"] = topology.memory_bytes >> 30U;
  if (options.most_frames > 1) question["most_frames"] = options.most_frames;
  if (options.devices.empty()) question["groups"] = "chosen";
  for (const auto& file : options.custom_ops) {
    const auto hash = sha256_of_file(file);
    question["custom_ops"].push_back(hash ? *hash : file.string());
  }
  // The digest of the network knows no names nor order, the plan does.
  for (const auto& node : graph.nodes) question["nodes"].push_back(node.name);
  for (const auto& value : graph.values) question["values"].push_back(value.name);
  std::ifstream rules(options.rules, std::ios::binary);
  question["rules"] = std::string(std::istreambuf_iterator<char>(rules), {});
  cost::PlanKey key;
  key.plan = "search:" + sha256_of(question.dump(-1, ' ', false, Json::error_handler_t::replace));
  key.device = topology.fingerprint + device::limits_of(topology, device::allowed_cpus(topology));
  key.engines = concat("penstock ", version(), ", ");
  for (const auto& backend : backends.all()) {
    const auto description = backend->describe();
    if (description.unavailable.empty()) {
      key.engines += concat(description.name, " ", description.engine_version, ", ");
    }
  }
  return key;
}

}  // namespace penstock::tune
