// What a network says of its outputs, for the judge.
#pragma once

#include <vector>

#include "penstock/measure/judge.h"
#include "penstock/plan/package.h"

namespace penstock {

/// For each output of the plan, the rounding that its last function has in any engine, however
/// small its value: eight units in the last place of 1 where that computes with 1, as a sigmoid
/// does; else 0. What only moves or picks values (Reshape, Transpose, Concat, ...) is looked
/// through; nested graphs and stages that cannot be read are not. And whether it is a constant,
/// which node that it depends on draws random numbers, whether it depends on what is computed in
/// f16 or bf16, and whether its integers are rounded from no number.
std::vector<measure::KnownOutput> known_outputs(const plan::Package& package);

}  // namespace penstock
