// Baselines: the plans that people make by hand or that other tools make, judged like any other.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "penstock/planner/problem/instance.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

struct Baseline {
  std::string name;
  std::optional<Split> split;  ///< Of the problem; absent where the method gives none.
  Evaluation evaluation;       ///< Of the split.
  bool allowed = true;         ///< The options allow its kind of split: it competes.
  std::string why_not;         ///< Why it is no plan (memory, support, latency); empty where it is.

  [[nodiscard]] bool competes() const { return allowed && why_not.empty(); }
};

/// In this order:
/// - single_device: everything on the device where it takes the least time.
/// - replicate_all: everything on each device of a type, frames in turn; competes with replicas
/// only.
/// - equal_split: equal compute for each device, along the groups' order.
/// - one_order: the best intervals along one depth-first order, the linearised dynamic program of
///   Tarnawski et al., NeurIPS 2020.
/// - torchgpipe: the block partition of Barany and Grinberg, Linear Algebra Appl. 486, 2015, along
///   the groups' order.
/// - pipedream: biconnected components merged, put in a line, cut by dynamic programming, as
///   Tarnawski et al. compare with; none where that would take long.
/// - user: Options::user_split, where there is one.
///
/// Each takes the best of the types of devices and of their modes. `instance` is of `problem`.
std::vector<Baseline> make_baselines(const Problem& problem, const Instance& instance,
                                     const Options& options);

}  // namespace penstock::planner
