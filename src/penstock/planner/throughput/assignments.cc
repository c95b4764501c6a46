// Branch and bound over places group by group, with loads and transfers kept up to date.
#include "penstock/planner/throughput/assignments.h"

#include <algorithm>

namespace penstock::planner {
namespace {

constexpr double kLessTime = 1 - 1e-9;       // Smaller gains are rounding.
constexpr std::int64_t kNodesPerLook = 256;  // At the clock.

class AssignmentSearch {
 public:
  AssignmentSearch(const Instance& instance, const Places& places, const Prices& prices,
                   const AssignmentJudge& judge)
      : instance_(instance),
        places_(places),
        prices_(prices),
        judge_(judge),
        place_of_(at(instance.groups), -1),
        population_(at(places.size()), 0),
        groups_on_(at(places.devices()), 0),
        pins_at_(at(instance.values) * at(places.devices()), 0),
        pins_done_(at(instance.values), 0),
        work_(at(places.devices())),
        memory_(at(places.devices()), 0) {
    for (const double price : prices.group) rest_ += price;
  }

  std::optional<double> run(const Budget& budget) {
    budget_ = &budget;
    descend(0);
    if (stopped_) return std::nullopt;
    return bound_;
  }

 private:
  [[nodiscard]] int type_of(int device) const { return places_.device_type[at(device)]; }
  [[nodiscard]] double load(int device) const {
    return combine(work_[at(device)], instance_.type_overlap[at(type_of(device))]);
  }

  void descend(int group) {
    ++nodes_;
    if (nodes_ > judge_.most_nodes || (nodes_ % kNodesPerLook == 0 && budget_->over())) {
      stopped_ = true;
    }
    if (stopped_) return;
    double period = 0;
    for (int d = 0; d < places_.devices(); ++d) period = std::max(period, load(d));
    const double best = judge_.best();
    if (period >= best * kLessTime || !rest_fits(best)) return;
    if (group == instance_.groups) {
      bound_ = std::min(bound_, judge_.settle(place_of_, period));
      return;
    }
    const double price = prices_.group[at(group)];
    rest_ -= price;
    for (int p = 0; p < places_.size() && !stopped_; ++p) {
      if (!may_go(group, p)) continue;
      put(group, p, 1);
      descend(group + 1);
      put(group, p, -1);
    }
    rest_ += price;
  }

  [[nodiscard]] bool rest_fits(double period) const {
    double room = 0;
    for (int d = 0; d < places_.devices(); ++d) {
      const int type = type_of(d);
      if (prices_.type[at(type)] == kInfinite) return true;
      const bool serial = instance_.type_overlap[at(type)] == Overlap::kSerial;
      room += prices_.type[at(type)] * (period - (serial ? load(d) : work_[at(d)].compute));
    }
    return rest_ <= room * (1 + 1e-9);
  }

  [[nodiscard]] bool may_go(int group, int place) const {
    const auto [device, mode] = places_.list[at(place)];
    if (instance_.time_of(group, mode) == kInfinite) return false;
    const int type = type_of(device);
    const double cap = instance_.type_memory[at(type)] * (1 + 1e-9);
    if (memory_[at(device)] + instance_.memory[at(group)] > cap) return false;
    // Of like devices that have nothing yet only the first.
    if (groups_on_[at(device)] > 0 || device == 0) return true;
    return type_of(device - 1) != type || groups_on_[at(device - 1)] > 0;
  }

  /// Puts the group there (`sign` 1) or takes the last group that came away again (-1).
  void put(int group, int place, int sign) {
    const auto [device, mode] = places_.list[at(place)];
    for (const int v : instance_.values_of[group]) add_value(v, -1);
    place_of_[at(group)] = sign > 0 ? place : -1;
    groups_on_[at(device)] += sign;
    auto& own = work_[at(device)].compute;
    own += sign * instance_.time_of(group, mode);
    if (population_[at(place)] == (sign > 0 ? 0 : 1)) own += sign * instance_.mode_launch[at(mode)];
    population_[at(place)] += sign;
    memory_[at(device)] += sign * instance_.memory[at(group)];
    for (const int v : instance_.values_of[group]) {
      pins_at_[at(v, places_.devices(), device)] += sign;
      pins_done_[at(v)] += sign;
      add_value(v, 1);
    }
  }

  /// What the value costs as far as its ends are known; never more than in the end.
  void add_value(int value, int sign) {
    const int home_place = place_of_[at(instance_.producer[at(value)])];
    if (home_place < 0) return;
    const int home = places_.list[at(home_place)].device;
    for (int d = 0; d < places_.devices(); ++d) {
      const int here = pins_at_[at(value, places_.devices(), d)];
      if (here == 0 || here == pins_done_[at(value)]) continue;
      const auto cost = at(value, instance_.types, type_of(d));
      if (d == home) {
        work_[at(d)].out += sign * instance_.send[cost];
      } else {
        work_[at(d)].in += sign * instance_.receive[cost];
      }
    }
  }

  const Instance& instance_;
  const Places& places_;
  const Prices& prices_;
  const AssignmentJudge& judge_;
  std::vector<int> place_of_;    // [group] -1: not yet.
  std::vector<int> population_;  // [place]
  std::vector<int> groups_on_;   // [device]
  std::vector<int> pins_at_;     // [value * devices + device]
  std::vector<int> pins_done_;   // [value]
  std::vector<Work> work_;       // [device]
  std::vector<double> memory_;   // [device]
  double rest_ = 0;              // Priced time of the groups not yet put.
  double bound_ = kInfinite;
  std::int64_t nodes_ = 0;
  const Budget* budget_ = nullptr;
  bool stopped_ = false;
};

}  // namespace

std::optional<double> search_assignments(const Instance& instance, const Places& places,
                                         const Prices& prices, const AssignmentJudge& judge,
                                         const Budget& budget) {
  return AssignmentSearch(instance, places, prices, judge).run(budget);
}

}  // namespace penstock::planner
