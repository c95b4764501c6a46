// Formats costs, gap, binding resource, runner-up and baselines as lines of aligned text.
#include "penstock/planner/report/explain.h"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <ios>
#include <sstream>

#include "penstock/base/words.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// With `count` digits, or all that stand before the point: no exponent, up to sizes that nobody
/// reads.
std::string digits(double number, int count) {
  constexpr double kLargest = 1e15;
  constexpr int kSmallest = 15;  // Places behind the point.
  std::ostringstream out;
  if (number == 0 || !(std::abs(number) < kLargest)) {
    out << number;
    return std::move(out).str();
  }
  const auto places = count - 1 - static_cast<int>(std::floor(std::log10(std::abs(number))));
  out << std::fixed << std::setprecision(std::clamp(places, 0, kSmallest)) << number;
  auto text = std::move(out).str();
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string percent(double share) {
  return digits(100 * share, 3) + " %";
}

std::string bound_text(const Problem& problem, const Answer& answer) {
  const auto scope = problem.scope.empty() ? "" : " " + problem.scope;
  if (answer.proved) return concat("proved: no other plan is cheaper", scope);
  if (answer.gap == kInfinite) return "not bounded from below yet";
  return concat("at least ", cost_text(answer.lower_bound, problem.in_seconds), ": at most ",
                percent(answer.gap), " above the best plan", scope);
}

/// What the period leaves out.
std::string uncounted_text(const Problem& problem, const Answer& answer) {
  for (const auto& stage : answer.split.stages) {
    const auto& type = problem.types[at(problem.modes[at(stage.mode)].type)];
    if (type.unlimited) return concat(" of the devices; '", type.name, "' is without limit here");
  }
  return "";
}

std::string baseline_text(const Answer& answer, const Baseline& baseline, Goal goal,
                          bool in_seconds) {
  if (!baseline.why_not.empty()) return baseline.why_not;
  const double cost = cost_of(baseline.evaluation, goal);
  auto text = cost_text(cost, in_seconds);
  if (answer.cost > 0) text += concat(" (", digits(cost / answer.cost, 4), " times this plan's)");
  if (!baseline.allowed) {
    text += concat(", not allowed by the options",
                   baseline.name == "replicate_all" ? " (--replicas allows it)" : "");
  }
  return text;
}

}  // namespace

std::string cost_text(double cost, bool in_seconds) {
  constexpr int kDigits = 7;
  if (!std::isfinite(cost)) return "none";
  if (!in_seconds || cost == 0) return digits(cost, kDigits);
  const auto [count, unit] = in_largest_unit(cost * 1e9);
  return concat(digits(count, kDigits), " ", unit);
}

std::string explain(const Problem& problem, const Options& options, const Answer& answer) {
  const bool latency = options.goal == Goal::kLatency;
  const auto cost = [&](double time) { return cost_text(time, problem.in_seconds); };
  std::string text =
      concat("period     ", cost(answer.evaluation.period), uncounted_text(problem, answer),
             "\nlatency    ", cost(answer.evaluation.latency), "\n",
             latency ? "latency is " : "period is ", bound_text(problem, answer), "\n");
  text += concat("bound by   ", to_string(answer.binding), "\n");
  if (answer.runner_up) {
    constexpr double kVisible = 5e-6;
    const double more = answer.cost > 0 ? answer.runner_up->cost / answer.cost - 1 : 0;
    text += concat("runner-up  ", cost(answer.runner_up->cost), ", ",
                   more > kVisible ? percent(more) + " more" : "as good", "\n");
  }
  for (const auto& baseline : answer.baselines) {
    auto name = baseline.name;
    name.resize(std::max<std::size_t>(name.size(), 13), ' ');
    text += concat("  ", name, "  ",
                   baseline_text(answer, baseline, options.goal, problem.in_seconds), "\n");
  }
  text += concat("found in   ", digits(answer.seconds, 3), " s\n");
  return text;
}

}  // namespace penstock::planner
