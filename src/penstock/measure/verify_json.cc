// A verification's report as JSON: the verdict, each output's figures and what went wrong.
#include <nlohmann/json.hpp>

#include "penstock/measure/verify.h"

namespace penstock::measure {
namespace {

using Json = nlohmann::ordered_json;

Json finite(double value) {
  return value < 1e300 ? Json(value) : Json("infinite");
}

Json to_object(const OutputVerdict& output) {
  const auto& allowed = output.allowed;
  return {{"name", allowed.output},
          {"verdict", to_string(output.finding)},
          {"reason", output.reason},
          {"values", output.values},
          {"mismatches", output.mismatches},
          {"largest_error", finite(output.largest_error)},
          {"worst_ratio", finite(output.worst_ratio)},
          {"allowed", explain(output)},
          {"relative", allowed.tolerance.relative},
          {"absolute", allowed.tolerance.absolute},
          {"floor", allowed.tolerance.floor},
          {"rate", allowed.rate},
          {"own_rounding", allowed.rounding},
          {"own_rate", allowed.own_rate},
          {"bf16", allowed.bf16},
          {"told_apart", allowed.told_apart},
          {"frames_scaled", output.scale}};
}

}  // namespace

std::string to_json(const VerifyReport& report) {
  Json outputs = Json::array();
  for (const auto& output : report.verdict.outputs) outputs.push_back(to_object(output));
  const Json json = {{"ok", report.finding() == Finding::kRight},
                     {"verdict", to_string(report.finding())},
                     {"frames", report.frames},
                     {"dropped", report.dropped},
                     {"unjudged", report.unjudged},
                     {"why_unjudged", report.why_unjudged},
                     {"interrupted", report.interrupted},
                     {"reference", report.reference},
                     {"other_sizes", report.other_sizes},
                     {"outputs", std::move(outputs)},
                     {"problem_count", report.problem_count()},
                     {"problems", report.problems()},
                     {"warnings", report.warnings}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace penstock::measure
