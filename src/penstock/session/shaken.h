// References that differ from the whole model in last bits inside: of constants, or on the way.
#pragma once

#include <filesystem>
#include <vector>

#include "penstock/backend/registry.h"
#include "penstock/measure/judge.h"
#include "penstock/measure/reference.h"
#include "penstock/plan/package.h"

namespace penstock {
namespace graph {
class WeightStore;
}

/// Makers of the whole model with every size of a step (QuantizeLinear and its kin) 16 to 48 units
/// in the last place larger or smaller, in a few ways: where a quantised network rounds what
/// lies just between two steps, as half of a sum of two equal scales does, changed inputs show
/// nothing and changed scales do. A size that several nodes read changes for each of them by
/// itself, and one that DynamicQuantizeLinear computes for its values and its zero point. Weights
/// of f16 change by one unit, as their sums are rounded to f16 behind inputs of which an average
/// shows nothing. No other constant: an exponent of 2 that is none any more makes NaN of what is
/// below 0. For Trial::look_again(). Making one fails where there is neither, the model is large
/// (256 MiB), or an engine refuses it. What it refers to outlives them.
std::vector<measure::MakeReference> shaken_references(const std::filesystem::path& model,
                                                      const plan::Package& package,
                                                      const backend::Registry& backends,
                                                      const measure::ReferenceSettings& settings);

/// The whole model with what it computes in `type`, f32 or f16, changed in the last bit behind each
/// node that rounds: see graph::add_rounding_noise(). Where a network subtracts what is almost
/// equal, as a normalisation of a small signal on a large offset does, two right engines are far
/// apart, and changed inputs show nothing of it. Making it fails where nothing is changed, and as
/// that of the others does. What it refers to outlives it. `weights`: as in WriteOptions; else the
/// model's constants stand in a temporary folder once more.
measure::MakeReference noisy_reference(DType type, const std::filesystem::path& model,
                                       const plan::Package& package,
                                       const backend::Registry& backends,
                                       const measure::ReferenceSettings& settings,
                                       const graph::WeightStore* weights = nullptr);

}  // namespace penstock
