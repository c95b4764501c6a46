// Loads the initial value of each state, from a file of the package or as zeros.
#include "penstock/measure/states.h"

#include <algorithm>

namespace penstock::measure {

bool have_open_states(const plan::Plan& plan) {
  return std::ranges::any_of(plan.states, [&](const plan::StateEdge& state) {
    const auto* const read = plan.find_tensor(state.to);
    return read == nullptr || !read->type.fixed();
  });
}

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
