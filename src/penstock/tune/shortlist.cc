// Compares what is left of the budget with what trials took and with what has to follow.
#include "penstock/tune/shortlist.h"

#include <algorithm>

#include "penstock/base/error.h"

namespace penstock::tune {

void Shortlist::tried(const std::string& backend, double seconds) {
  auto& longest = trials_[backend];
  longest = std::max(longest, seconds);
}

double Shortlist::trial_seconds(const std::string& backend) const {
  const auto found = trials_.find(backend);
  return found == trials_.end() ? 0 : found->second;
}

Budget::Clock::time_point Shortlist::trial_until(const std::string& backend, double rest) const {
  const double spent = budget_.spent();
  if (!has_room_for(trial_seconds(backend), rest)) return budget_.at(spent);
  return budget_.at(std::max(budget_.seconds() - rest, spent + kCheapSeconds));
}

bool Shortlist::has_room_for(double seconds, double rest) const {
  return seconds <= kCheapSeconds || budget_.spent() + seconds + rest <= budget_.seconds();
}

void Shortlist::leave_out(const std::string& what) {
  if (std::ranges::find(left_out_, what) == left_out_.end()) left_out_.push_back(what);
}

std::string Shortlist::sentence(const std::string& budget) const {
  if (left_out_.empty()) return {};
  return concat(budget, " was too short for: ", join(left_out_, ", "));
}

}  // namespace penstock::tune
