// Answer: what solving a problem gives.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/planner/baselines/baselines.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// What keeps the cost from falling.
struct Binding {
  enum class Kind {
    kCompute,     ///< The device computes most of its time,
    kIn,          ///< receives,
    kOut,         ///< or sends.
    kGroup,       ///< The device has one group alone, which cannot be divided.
    kMemory,      ///< A cheaper split was found once no memory had a cap. Where none was, another
                  ///< kind is told, though memory may bind.
    kLatencyCap,  ///< The split's latency is the cap.
    kLink,        ///< What several devices send through: `device` names it.
    kPath,        ///< The goal is latency: what one frame must wait for, one after the other.
  };
  Kind kind = Kind::kCompute;
  std::string device;  ///< The one with the largest load; empty where no single one binds.
  std::string group;   ///< For kGroup.
};

struct RunnerUp {
  Split split;
  double cost = kInfinite;
};

/// A gap up to this counts as proof: the costs of groups are measured far less exactly.
constexpr double kProofGap = 1e-6;

struct Answer {
  Split split;  ///< Without violations.
  Evaluation evaluation;
  double cost = kInfinite;  ///< The period, or the latency where that is the goal.
  double lower_bound = 0;   ///< No split that the options allow costs less.
  double gap = kInfinite;   ///< See gap_of().
  bool proved = false;      ///< gap <= kProofGap.
  double seconds = 0;       ///< That solving took.
  Binding binding;
  std::optional<RunnerUp> runner_up;  ///< The best other split found, with other stages.
  std::vector<Baseline> baselines;
};

/// cost / lower_bound - 1; infinite for a bound of 0.
double gap_of(double cost, double lower_bound);
/// Sets `gap` and `proved`, and brings the bound down to the cost.
void settle(Answer& answer);
/// Makes a better split the answer's; the old one becomes the runner-up.
void replace_split(const Problem& problem, const Options& options, Split split, Answer& answer);

/// Whether two splits put the same groups into the same stages, whatever the devices.
bool same_stages(const Split& a, const Split& b);

/// What the evaluation alone shows of the binding resource: no kMemory.
Binding find_binding(const Problem& problem, const Options& options, const Split& split,
                     const Evaluation& evaluation);

/// "compute of device 'cpu:0'".
std::string to_string(const Binding& binding);

/// The best split made from `split` by moving one group to a neighbouring stage. Ends with
/// `budget`.
std::optional<RunnerUp> best_neighbour(const Problem& problem, const Options& options,
                                       const Split& split, const Budget& budget);

}  // namespace penstock::planner
