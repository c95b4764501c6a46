#include "penstock/build/gate.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "penstock/measure/reference.h"

namespace penstock::build {
namespace {

constexpr double kMostRatio = 1e9;  ///< Also of what cannot be compared at all.

using Outputs = std::vector<std::vector<Tensor>>;

/// Calls `see(frame, output, comparison)` for each.
void compare_all(const Outputs& actual, const Outputs& expected, const Tolerance& tolerance,
                 const std::function<void(std::size_t, std::size_t, const Comparison&)>& see) {
  for (std::size_t frame = 0; frame < expected.size(); ++frame) {
    for (std::size_t i = 0; i < expected[frame].size(); ++i) {
      see(frame, i, compare(actual[frame][i], expected[frame][i], tolerance));
    }
  }
}

Result<Outputs> run_all(measure::Reference& reference, const std::vector<frames::Frame>& inputs) {
  Outputs outputs;
  for (const auto& frame : inputs) {
    PENSTOCK_TRY(outputs.emplace_back(), reference.run(frame));
  }
  return outputs;
}

}  // namespace

Result<Gate> Gate::create(const Setting& setting) {
  const auto& [model, package, ring, backends, optimised, tolerance] = setting;
  Gate gate;
  gate.tolerance_ = tolerance;
  gate.inputs_.assign(
      ring.begin(), ring.begin() + static_cast<std::ptrdiff_t>(std::min(kGateFrames, ring.size())));
  for (const auto& output : package.plan.outputs) gate.names_.push_back(output.name);
  gate.factors_.assign(gate.names_.size(), 1);
  gate.not_judged_.assign(gate.names_.size(), false);
  PENSTOCK_TRY(auto plain, measure::whole_reference(model, package, backends, false));
  PENSTOCK_TRY(gate.expected_, run_all(*plain, gate.inputs_));
  if (!optimised) return gate;
  plain.reset();
  PENSTOCK_TRY(const auto own_run, measure::whole_reference(model, package, backends, true));
  PENSTOCK_TRY(const auto own, run_all(*own_run, gate.inputs_));
  compare_all(own, gate.expected_, tolerance,
              [&](std::size_t, std::size_t i, const Comparison& comparison) {
                if (std::isfinite(comparison.worst_ratio)) {
                  gate.factors_[i] = std::max(gate.factors_[i], comparison.worst_ratio);
                } else {
                  gate.not_judged_[i] = true;
                }
              });
  return gate;
}

std::vector<std::string> Gate::not_judged() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (not_judged_[i]) names.push_back(names_[i]);
  }
  return names;
}

Result<Verdict> Gate::judge(pipeline::Pipeline& pipeline) const {
  Verdict verdict;
  Outputs actual;
  for (const auto& frame : inputs_) {
    PENSTOCK_TRY(actual.emplace_back(), pipeline.run(frame));
  }
  compare_all(actual, expected_, tolerance_,
              [&](std::size_t frame, std::size_t i, const Comparison& comparison) {
                if (not_judged_[i] && comparison.problem.empty()) return;
                const double ratio = std::min(comparison.worst_ratio, kMostRatio);
                const bool worse = ratio > verdict.worst_ratio;
                verdict.worst_ratio = std::max(verdict.worst_ratio, ratio);
                const bool wrong = !comparison.problem.empty() || ratio > factors_[i];
                if (!wrong || (!worse && !verdict.failure.empty())) return;
                verdict.failure = concat("wrong output: '", names_[i], "' of frame ", frame, ": ",
                                         to_string(comparison));
              });
  return verdict;
}

}  // namespace penstock::build
