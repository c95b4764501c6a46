// Replan: plans of the same stages for the paces that CPUs have now.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "penstock/follow/variants.h"
#include "penstock/plan/plan.h"

namespace penstock::follow {

/// By CPU: 1 where a stage takes its own time, 0.5 where it takes twice that. One that is missing
/// computes nothing.
using Paces = std::map<int, double>;

/// For each number of stages, from one to as many as the plan has, the plan of most frames per
/// second: the plan's stages, those that follow one another merged, on its devices, or on each CPU
/// of these, with replicas. A rate is that of the slowest stage, a stage's the sum of its
/// instances', an instance's its pace over its seconds. What writes or reads a state has one
/// instance. Of plans as fast, one of fewest devices. Exact for 8 devices; of more, those of like
/// pace are given in blocks of 1, 1, 2, 4, ... None for what variants_of() has no variants of.
/// `seconds`: of each stage on a device of its own, at a pace of 1.
std::vector<Variant> plans_for(const plan::Plan& plan, const std::vector<double>& seconds,
                               const Paces& paces);

/// plans_for() where the paces have changed by more than a tenth since it planned last. A value.
class Replanner {
 public:
  Replanner(plan::Plan plan, std::vector<double> seconds)
      : plan_(std::move(plan)), seconds_(std::move(seconds)) {}
  std::vector<Variant> see(const Paces& paces);

 private:
  plan::Plan plan_;
  std::vector<double> seconds_;
  std::optional<Paces> last_;
};

}  // namespace penstock::follow
