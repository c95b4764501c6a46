// Loads the initial value of each state, from a file of the package or as zeros.
#include "penstock/measure/states.h"

namespace penstock::measure {

Result<States> States::create(const plan::Plan& plan, const std::filesystem::path& folder) {
  States states;
  states.edges_ = plan.states;
  for (const auto& state : plan.states) {
    PENSTOCK_TRY(states.initial_.emplace_back(), plan::initial_value(plan, folder, state));
  }
  states.begin_sequence();
  return states;
}

}  // namespace penstock::measure
