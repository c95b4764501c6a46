// Parses texts such as 4 and stage1=4, and leaves out the stages whose calls follow one another.
#include "penstock/partition/lanes.h"

#include <algorithm>
#include <charconv>

#include "penstock/plan/calls.h"

namespace penstock::partition {
namespace {

/// What is asked of all stages without a name; 0: nothing.
int usual_lanes(const Lanes& lanes) {
  const auto usual = lanes.find("");
  return usual == lanes.end() ? 0 : usual->second;
}

AskedOfAll not_named_in(const Lanes& lanes) {
  return [&lanes](const plan::Stage& stage) { return !lanes.contains(stage.name); };
}

}  // namespace

Result<std::pair<std::string, int>> parse_lanes(const std::string& text) {
  const auto equals = text.rfind('=');
  const bool named = equals != text.npos;
  const char* const end = text.data() + text.size();
  int count = 0;
  const auto [stop, problem] = std::from_chars(text.data() + (named ? equals + 1 : 0), end, count);
  const bool right = problem == std::errc() && stop == end && equals != 0;
  if (!right || count < 0 || count > plan::kMostLanes) {
    return invalid_argument("lanes '", text,
                            "': expected N or STAGE=N, such as 4 or stage1=4, N from 0 to ",
                            plan::kMostLanes);
  }
  return std::pair(named ? text.substr(0, equals) : std::string(), count);
}

Status add_lanes(const Lanes& lanes, plan::Plan& plan) {
  for (const auto& [name, count] : lanes) {
    if (name.empty() || std::ranges::count(plan.stages, name, &plan::Stage::name) > 0) continue;
    return not_found("lanes: no stage '", name, "'; the stages are ",
                     join(plan.stages, ", ", [](const plan::Stage& stage) { return stage.name; }));
  }
  for (auto& stage : plan.stages) {
    const auto named = lanes.find(stage.name);
    stage.lanes = named != lanes.end() ? named->second : usual_lanes(lanes);
  }
  spare_lanes(plan, not_named_in(lanes));
  return {};
}

void spare_lanes(plan::Plan& plan, const AskedOfAll& asked_of_all) {
  for (auto& stage : plan.stages) {
    if (stage.lanes <= 1 || !asked_of_all(stage)) continue;
    if (!plan::why_one_lane(plan, stage).empty()) stage.lanes = 0;
  }
}

std::vector<std::string> lanes_left_out(const Lanes& lanes, const plan::Plan& plan) {
  if (usual_lanes(lanes) <= 1) return {};
  return lanes_left_out(plan, not_named_in(lanes));
}

std::vector<std::string> lanes_left_out(const plan::Plan& plan, const AskedOfAll& asked_of_all) {
  std::vector<std::string> left_out;
  for (const auto& stage : plan.stages) {
    if (!asked_of_all(stage)) continue;
    const auto reasons = plan::why_one_lane(plan, stage);
    if (reasons.empty()) continue;
    left_out.push_back(
        concat("stage '", stage.name, "' keeps 1 call in flight: ", reasons.front()));
  }
  return left_out;
}

}  // namespace penstock::partition
