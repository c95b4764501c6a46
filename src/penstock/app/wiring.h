// Wiring: who reads what in an application, checked.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "penstock/app/parts.h"

namespace penstock::app {

/// A tensor of the application's plan.
struct Source {
  std::string tensor;  ///< Its name in the plan.
  Type type;
};

/// All parts in an order in which each stands behind those it reads, and what every port reads.
struct Wiring {
  std::vector<std::size_t> order;        ///< Positions in the parts.
  std::vector<plan::TensorInfo> inputs;  ///< Of the plan, in the application's order.
  /// By part, by port. State ports are among the inputs.
  std::vector<std::map<std::string, Source>> reads, writes;
  std::vector<std::optional<Dim>> items;  ///< By part: the dimension of those that run for each.
  std::vector<plan::StateEdge> states;    ///< `initial` as the application has it.
  std::vector<plan::TensorInfo> outputs;  ///< Of the plan, in the application's order.
};

/// \error kInvalidArgument, kNotFound  as write_package().
Result<Wiring> wire(const App& app, const std::vector<Part>& parts);

}  // namespace penstock::app
