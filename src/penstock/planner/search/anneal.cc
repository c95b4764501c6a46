// A Metropolis walk over Loads by single moves, swaps and joint moves, with power sums as energy.
#include "penstock/planner/search/anneal.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::planner {
namespace {

constexpr std::int64_t kSweep = 1024;    // Moves between two looks at the clock.
constexpr int kPartnerTries = 8;         // Groups drawn in search of one on a given device.
constexpr int kFarTries = 8;             // One in so many groups amid its own goes anywhere.
constexpr int kCutTries = 3;             // Of eight moves, those that begin at a cut value.
constexpr double kLessLoad = 1 - 1e-12;  // Smaller differences are rounding.
constexpr double kMostTogether = 64;     // Groups that move together.

class Walk {
 public:
  Walk(Loads& loads, Random& random, const Accept& accept)
      : loads_(loads), random_(random), accept_(accept), share_(at(loads.places().devices())) {
    keep_if_better();
  }

  Annealed run(const Schedule& schedule, const Budget& budget) {
    const auto sweeps = std::max<std::int64_t>(1, schedule.moves / kSweep);
    const double cooling =
        std::pow(schedule.cold / schedule.hot, 1.0 / static_cast<double>(sweeps));
    double temperature = schedule.hot;
    if (!confine(schedule.only)) return best_;
    for (std::int64_t sweep = 0; sweep < sweeps && !budget.over(); ++sweep) {
      squarings_ = sweep * 2 < sweeps ? 5U : 6U;
      start_sweep(temperature);
      for (std::int64_t i = 0; i < kSweep; ++i) step();
      temperature *= cooling;
    }
    return best_;
  }

 private:
  /// To the groups of these devices. Whether there are any.
  bool confine(const std::vector<int>& devices) {
    open_.assign(at(loads_.places().devices()), devices.empty());
    for (const int d : devices) open_[at(d)] = 1;
    for (int g = 0; g < loads_.instance().groups; ++g) {
      if (open_[at(loads_.device_of(g))] != 0) movable_.push_back(g);
    }
    return !movable_.empty();
  }

  /// Part of the energy that a device with this load has: (load / scale)^q.
  [[nodiscard]] double energy_of(double load) const {
    double power = load * inverse_scale_;
    for (unsigned i = 0; i < squarings_; ++i) power *= power;
    return power;
  }

  void start_sweep(double temperature) {
    loads_.recount();
    temperature_ = temperature;
    rescale();
  }

  void rescale() {
    const double period = loads_.period();
    inverse_scale_ = period > 0 ? 1 / period : 0;
    energy_ = 0;
    for (int d = 0; d < loads_.places().devices(); ++d) {
      energy_ += share_[at(d)] = energy_of(loads_.load(d));
    }
  }

  /// The largest growth of the energy to put up with now. The period is about energy^(1/q).
  double tolerance() {
    return -std::log(random_.unit()) * temperature_ * static_cast<double>(1U << squarings_) *
           energy_;
  }

  /// Places of other ends of its values are the better bets.
  int draw_place(int group) {
    const auto values = loads_.instance().values_of[group];
    if (!values.empty() && random_.below(4) > 0) {
      const int value = values[at(random_.below(static_cast<int>(values.size())))];
      const auto pins = loads_.instance().pins[value];
      const int pin = pins[at(random_.below(static_cast<int>(pins.size())))];
      const int place = loads_.place_of()[at(pin)];
      // Where none of its neighbours is, it is seldom worth trying.
      const bool try_anywhere = loads_.places().ordered || random_.below(kFarTries) == 0;
      if (place != loads_.place_of()[at(group)] || !try_anywhere) return place;
    }
    return loads_.places().ordered && random_.below(2) > 0 ? near_place(group)
                                                           : random_.below(loads_.places().size());
  }

  /// One to the left or right of its own, if there is one.
  int near_place(int group) {
    const int place = loads_.place_of()[at(group)] + 2 * random_.below(2) - 1;
    return std::clamp(place, 0, loads_.places().size() - 1);
  }

  /// A group and where it is to go.
  std::pair<int, int> draw() {
    if (!loads_.places().ordered && random_.below(8) < kCutTries && !loads_.cut_values().empty()) {
      return draw_at_cut();
    }
    const int group = movable_[at(random_.below(static_cast<int>(movable_.size())))];
    return {group, draw_place(group)};
  }

  /// An end of a value that devices exchange, to where another end is: most groups lie amid their
  /// own, and moves of these are in vain.
  std::pair<int, int> draw_at_cut() {
    const auto& cut = loads_.cut_values();
    const auto pins = loads_.instance().pins[cut[at(random_.below(static_cast<int>(cut.size())))]];
    const int group = pins[at(random_.below(static_cast<int>(pins.size())))];
    const int other = pins[at(random_.below(static_cast<int>(pins.size())))];
    return {group, loads_.place_of()[at(other)]};
  }

  void step() {
    const auto [group, place] = draw();
    if (open_[at(loads_.device_of(group))] == 0) return;
    if (open_[at(loads_.places().list[at(place)].device)] == 0) return;
    if (place == loads_.place_of()[at(group)] || !loads_.supports(group, place)) return;
    if (draw_move(group, place) && energy_ < 1.5 * static_cast<double>(share_.size()))
      keep_if_better();
  }

  bool draw_move(int group, int place) {
    if (!loads_.places().ordered && random_.below(4) == 0) {
      draw_together(group);
      return try_together(place);
    }
    return random_.below(8) < 5 ? try_move(group, place) : try_swap(group, place);
  }

  /// The group and others of its place: its neighbours by number or by values, and theirs. One by
  /// one they would pay for being parted on the way.
  void draw_together(int group) {
    const auto most = static_cast<std::size_t>(2 * std::pow(kMostTogether / 2, random_.unit()));
    together_.assign(1, group);
    if (random_.below(2) == 0) {
      add_by_number(most);
    } else {
      add_by_values(most);
    }
  }

  /// In one direction; others' groups between them end it at times.
  void add_by_number(std::size_t most) {
    const int first = together_.front(), place = loads_.place_of()[at(first)];
    const int step = 2 * random_.below(2) - 1;
    for (int g = first + step; g >= 0 && g < loads_.instance().groups; g += step) {
      if (together_.size() == most) return;
      if (loads_.place_of()[at(g)] == place) {
        together_.push_back(g);
      } else if (random_.below(2) == 0) {
        return;
      }
    }
  }

  /// The nearest first.
  void add_by_values(std::size_t most) {
    const auto& instance = loads_.instance();
    const int place = loads_.place_of()[at(together_.front())];
    mark_.resize(at(instance.groups), 0);
    mark_[at(together_.front())] = ++marked_;
    for (std::size_t i = 0; i < together_.size(); ++i) {
      for (const int v : instance.values_of[together_[i]]) {
        for (const int pin : instance.pins[v]) {
          if (together_.size() == most) return;
          if (loads_.place_of()[at(pin)] != place || mark_[at(pin)] == marked_) continue;
          mark_[at(pin)] = marked_;
          together_.push_back(pin);
        }
      }
    }
  }

  bool try_together(int place) {
    const int home = loads_.place_of()[at(together_.front())];
    const int from = loads_.device_of(together_.front()),
              to = loads_.places().list[at(place)].device;
    if (from == to) return false;
    std::size_t moved = 0;
    for (; moved < together_.size(); ++moved) {
      const int group = together_[moved];
      if (!loads_.supports(group, place) || !has_room(group, to, 0)) break;
      loads_.move(group, place, loads_.change(group, place));
    }
    if (moved == together_.size() && take(from, to, {}, {})) return true;
    while (moved-- > 0) {
      loads_.move(together_[moved], home, loads_.change(together_[moved], home));
    }
    return false;
  }

  [[nodiscard]] bool has_room(int group, int device, double freed) const {
    return loads_.memory(device) + loads_.instance().memory[at(group)] - freed <=
           loads_.memory_cap(device);
  }

  bool try_move(int group, int place) {
    const int from = loads_.device_of(group), to = loads_.places().list[at(place)].device;
    if (from != to && !has_room(group, to, 0)) return false;
    if (!loads_.in_order(group, place)) return false;
    const auto change = loads_.change(group, place);
    if (!take(from, to, change.left, change.joined)) return false;
    loads_.move(group, place, change);
    return true;
  }

  /// Puts it in exchange for a group that is there.
  bool try_swap(int group, int place) {
    const int home = loads_.place_of()[at(group)];
    const int from = loads_.device_of(group), to = loads_.places().list[at(place)].device;
    const int other = draw_partner(place);
    if (from == to || other < 0 || !loads_.supports(other, home)) return false;
    const auto& memory = loads_.instance().memory;
    if (!has_room(group, to, memory[at(other)]) || !has_room(other, from, memory[at(group)])) {
      return false;
    }
    if (!loads_.in_order(group, place)) return false;
    loads_.move(group, place, loads_.change(group, place));
    if (loads_.in_order(other, home)) {
      const auto change = loads_.change(other, home);
      if (take(from, to, change.joined, change.left)) {
        loads_.move(other, home, change);
        return true;
      }
    }
    loads_.move(group, home, loads_.change(group, home));
    return false;
  }

  int draw_partner(int place) {
    for (int i = 0; i < kPartnerTries; ++i) {
      const int group = random_.below(loads_.instance().groups);
      if (loads_.place_of()[at(group)] == place) return group;
    }
    return -1;
  }

  /// Takes the energy that two devices have with these changes, unless it is too much.
  bool take(int first, int second, const Work& on_first, const Work& on_second) {
    const double one =
        first == second ? share_[at(first)] : energy_of(loads_.load_with(first, on_first));
    const double two = energy_of(loads_.load_with(second, on_second));
    double growth = two - share_[at(second)];
    if (first != second) growth += one - share_[at(first)];
    if (growth > 0 && growth > tolerance()) return false;
    energy_ += growth;
    share_[at(first)] = one;
    share_[at(second)] = two;
    return true;
  }

  void keep_if_better() {
    if (!(loads_.period() < best_.period * kLessLoad) || !loads_.within_memory()) return;
    loads_.recount();
    const double period = loads_.period();
    if (period < best_.period * kLessLoad && loads_.within_memory() &&
        (!accept_ || accept_(loads_.place_of()))) {
      best_ = {loads_.place_of(), period};
    }
    rescale();
  }

  Loads& loads_;
  Random& random_;
  const Accept& accept_;
  std::vector<double> share_;  // [device] Of the energy.
  double energy_ = 0, inverse_scale_ = 0, temperature_ = 0;
  unsigned squarings_ = 5;
  std::vector<int> together_;  // Groups that move.
  std::vector<int> mark_;      // [group] Whether it is among them: `marked_`.
  int marked_ = 0;
  std::vector<char> open_;    // [device] Whether its groups move.
  std::vector<int> movable_;  // Groups of these.
  Annealed best_;
};

}  // namespace

Annealed anneal(Loads& loads, const Schedule& schedule, Random& random, const Budget& budget,
                const Accept& accept) {
  return Walk(loads, random, accept).run(schedule, budget);
}

}  // namespace penstock::planner
