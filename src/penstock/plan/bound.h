// The inputs of a model that a plan has bound to a value: who still sends them is served.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::plan {

using BoundValues = std::map<std::string, Tensor>;  ///< By the input's name.

/// Of a plan's bound inputs, or a graph's.
template <typename BoundInput>
std::vector<std::string> names_of_bound(const std::vector<BoundInput>& bound) {
  std::vector<std::string> names;
  for (const auto& input : bound) names.push_back(input.name);
  return names;
}

/// \param folder  Package::folder
/// \error kInvalidArgument, kDataLoss  a value is not one, or a file holds another type: names it.
Result<BoundValues> read_bound_values(const Plan& plan, const std::filesystem::path& folder);

/// Whether what was sent for a bound input is its value, bit by bit.
/// \pre `bound` has the name. \error kInvalidArgument  it is another.
Status check_bound(const BoundValues& bound, const std::string& name, const Tensor& sent);

}  // namespace penstock::plan
