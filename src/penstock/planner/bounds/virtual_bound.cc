// Bisects the period; each test merges groups that cannot be parted and counts by pigeonholes.
#include "penstock/planner/bounds/virtual_bound.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "penstock/planner/bounds/prices.h"
#include "penstock/planner/problem/contract.h"
#include "penstock/planner/problem/fits.h"
#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

/// Where a group can run, and for how long at least.
struct Reach {
  double least = kInfinite;
  std::vector<int> types;
};

Reach reach_of(const Instance& instance, int group) {
  Reach reach;
  for (int m = 0; m < instance.modes; ++m) {
    const double time = instance.time_of(group, m);
    const int type = instance.mode_type[at(m)];
    if (time == kInfinite || instance.type_count[at(type)] == 0) continue;
    reach.least = std::min(reach.least, time);
    reach.types.push_back(type);
  }
  return reach;
}

/// Takes the groups longest first; their sums include the last, the shortest.
double pigeonhole_bound(std::vector<Reach> groups, const std::vector<int>& type_count) {
  std::ranges::stable_sort(groups, std::greater<>(), &Reach::least);
  std::vector<double> sum{0};
  std::vector<bool> reached(type_count.size(), false);
  std::size_t devices = 0;
  double bound = 0;
  for (const auto& group : groups) {
    sum.push_back(sum.back() + group.least);
    for (const int type : group.types) {
      if (reached[at(type)]) continue;
      reached[at(type)] = true;
      devices += at(type_count[at(type)]);
    }
    const std::size_t count = sum.size() - 1;
    const std::size_t share = (count + devices - 1) / devices;
    bound = std::max(bound, sum[count] - sum[count - share]);
  }
  return bound;
}

/// What a group costs a device of each type, at least, with all its values.
class Fuser {
 public:
  Fuser(const Instance& instance, double period)
      : instance_(instance),
        period_(period),
        least_(at(instance.groups) * at(instance.types), kInfinite),
        launch_(at(instance.types), kInfinite),
        shared_(at(instance.groups), 0),
        root_(at(instance.groups)) {
    std::iota(root_.begin(), root_.end(), 0);
    for (int m = 0; m < instance.modes; ++m) {
      const int type = instance.mode_type[at(m)];
      if (instance.type_count[at(type)] == 0) continue;
      launch_[at(type)] = std::min(launch_[at(type)], instance.mode_launch[at(m)]);
      for (int g = 0; g < instance.groups; ++g) {
        auto& least = least_[at(g, instance.types, type)];
        least = std::min(least, instance.time_of(g, m));
      }
    }
  }

  /// Joins what must be together and forgets modes of `into` that take too long. Whether it did.
  bool run(Instance& into) {
    bool any = false;
    for (int g = 0; g < instance_.groups; ++g) any = look_at(g, into) || any;
    return any;
  }

  /// For each group the number of what it is joined with: 0, 1, ...
  std::vector<int> numbers() {
    std::vector<int> number(root_.size(), -1), found;
    int next = 0;
    for (int g = 0; g < instance_.groups; ++g) {
      auto& own = number[at(find(g))];
      if (own < 0) own = next++;
      found.push_back(own);
    }
    return found;
  }

 private:
  static constexpr std::size_t kMostPins = 64;  // Of a value whose pins' times are looked at.

  int find(int group) {
    while (root_[at(group)] != group) group = root_[at(group)] = root_[at(root_[at(group)])];
    return group;
  }

  bool join(int a, int b) {
    a = find(a), b = find(b);
    root_[at(std::max(a, b))] = std::min(a, b);
    return a != b;
  }

  [[nodiscard]] double transfer(int group, int value, int type) const {
    const bool sends = instance_.producer[at(value)] == group;
    return (sends ? instance_.send : instance_.receive)[at(value, instance_.types, type)];
  }

  /// What the group's device spends on the value, at least. `shared_`: how many of its values a pin
  /// is in.
  [[nodiscard]] double least_for(int group, int value, int type) const {
    double cut = transfer(group, value, type);
    const auto pins = instance_.pins[value];
    if (cut == 0 || pins.size() > kMostPins) return 0;
    const auto share = [&](int pin) {
      return least_[at(pin, instance_.types, type)] / shared_[at(pin)];
    };
    const int producer = instance_.producer[at(value)];
    if (producer != group && pins.size() > 2) {  // With the producer the device may send it.
      cut = std::min(cut, transfer(producer, value, type) + share(producer));
    }
    double whole = 0;
    for (const int pin : pins) whole += pin == group ? 0 : share(pin);
    return std::min(cut, whole);
  }

  void count_pins(std::span<const int> values, int step) {
    for (const int v : values) {
      for (const int pin : instance_.pins[v]) shared_[at(pin)] += step;
    }
  }

  /// The group cannot pay for the value: its producer has all readers, a reader has the producer.
  bool join_ends(int group, int value) {
    const int producer = instance_.producer[at(value)];
    if (producer != group) return join(group, producer);
    bool any = false;
    for (const int pin : instance_.pins[value]) any = join(group, pin) || any;
    return any;
  }

  bool look_at(int group, Instance& into) {
    const auto values = instance_.values_of[group];
    count_pins(values, 1);
    std::vector<double> cheapest(values.size(), kInfinite);  // With that value cut.
    bool any = false;
    for (int t = 0; t < instance_.types; ++t) {
      const double own = least_[at(group, instance_.types, t)] + launch_[at(t)];
      if (own == kInfinite) continue;
      const bool serial = instance_.type_overlap[at(t)] == Overlap::kSerial;
      double all = own;
      for (const int v : values) all += serial ? least_for(group, v, t) : 0;
      if (all >= period_) {
        forget(group, t, into);
        any = true;
        continue;
      }
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double cut = transfer(group, values[i], t);
        const double load =
            serial ? all - least_for(group, values[i], t) + cut : std::max(own, cut);
        cheapest[i] = std::min(cheapest[i], load);
      }
    }
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (cheapest[i] >= period_) any = join_ends(group, values[i]) || any;
    }
    count_pins(values, -1);
    return any;
  }

  void forget(int group, int type, Instance& into) {
    for (int m = 0; m < instance_.modes; ++m) {
      if (instance_.mode_type[at(m)] == type) into.time[at(group, into.modes, m)] = kInfinite;
    }
  }

  const Instance& instance_;
  double period_;
  std::vector<double> least_;   // [group * types + type]
  std::vector<double> launch_;  // [type]
  std::vector<int> shared_;     // [group]
  std::vector<int> root_;       // [group]
};

/// Groups of one device need not run in one mode of its type: each takes the time of the best.
void level_modes(Instance& instance) {
  for (int g = 0; g < instance.groups; ++g) {
    for (int m = 0; m < instance.modes; ++m) {
      for (int n = 0; n < instance.modes; ++n) {
        if (instance.mode_type[at(m)] != instance.mode_type[at(n)]) continue;
        auto& time = instance.time[at(g, instance.modes, m)];
        time = std::min(time, instance.time_of(g, n));
      }
    }
  }
}

bool refutes(const Instance& instance, double period) {
  const auto fused = fuse(instance, period);
  if (!fused) return true;
  std::vector<Reach> groups;
  groups.reserve(at(fused->groups));
  for (int g = 0; g < fused->groups; ++g) groups.push_back(reach_of(*fused, g));
  // Sums in another order may come out a little too large.
  return (1 - 1e-12) * std::max(period_bound(*fused, make_prices(*fused), false),
                                pigeonhole_bound(std::move(groups), fused->type_count)) >=
         period;
}

}  // namespace

std::optional<Instance> fuse(Instance instance, double period) {
  level_modes(instance);
  for (bool changed = true; changed;) {
    auto next = instance;
    Fuser fuser(instance, period);
    changed = fuser.run(next);
    instance = changed ? merge_groups(next, fuser.numbers()) : std::move(next);
    drop_small_devices(instance);
    for (int g = 0; g < instance.groups; ++g) {
      if (reach_of(instance, g).types.empty()) return std::nullopt;
    }
  }
  return instance;
}

double virtual_bound(const Instance& instance, double known) {
  constexpr int kHalvings = 16;
  constexpr double kNearly = 1 - 1e-9;
  double low = period_bound(instance, make_prices(instance), false) * (1 - 1e-12), high = known;
  if (low >= high || !fuse(instance, known)) return known;
  if (high == kInfinite) return low;
  if (refutes(instance, high * kNearly)) return high * kNearly;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = 0.5 * (low + high);
    (refutes(instance, middle) ? low : high) = middle;
  }
  return std::min(known, low);
}

}  // namespace penstock::planner
