// Anneals where runs begin and at which places they are; weighs what is held too much.
#include "penstock/planner/throughput/run_walk.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace penstock::planner {
namespace {

constexpr int kBetweenLooks = 64;       // At the clock.
constexpr double kHot = 0.1;            // Growth of the cost that is put up with at first,
constexpr double kCold = 1e-4;          // and at last.
constexpr double kExcess = 3;           // What a whole cap too much costs, in periods.
constexpr int kCutsDrawn = 4;           // For each end of a run, of which the narrowest is taken.
constexpr double kShorter = 1 - 1e-12;  // Smaller gains are rounding.

/// Groups from `begin` to the next run's are at `place`.
struct Run {
  int begin = 0, place = 0;
};
using Runs = std::vector<Run>;

class RunWalk {
 public:
  RunWalk(const Instance& instance, const Places& places, int most_per_device, double period,
          Random& random, const std::function<void(const Split&)>& offer)
      : instance_(instance),
        places_(places),
        most_per_device_(most_per_device),
        best_(period),
        random_(random),
        offer_(offer),
        run_of_(at(instance.groups), 0) {
    measure_cuts();
  }

  void run(const std::vector<int>& from, std::int64_t steps, const Budget& budget) {
    Runs runs = runs_of(from);
    double cost = cost_of(runs);
    if (cost == kInfinite) cost = cost_of(runs = drawn());
    for (std::int64_t step = 0; step < steps; ++step) {
      if (step % kBetweenLooks == 0 && budget.over()) return;
      const double part = static_cast<double>(step) / static_cast<double>(steps);
      const double heat = kHot * std::pow(kCold / kHot, part);
      Runs moved = runs;
      for (int i = random_.below(3) > 0 ? 1 : 2; i > 0; --i) move(moved);
      const double next = cost_of(moved);
      if (next == kInfinite || next - cost > -std::log(random_.unit()) * heat * cost) continue;
      runs = std::move(moved);
      cost = next;
    }
  }

 private:
  /// How many bytes are alive between two groups, by the number of the second.
  void measure_cuts() {
    crossing_.assign(at(instance_.groups) + 1, 0);
    for (int v = 0; v < instance_.values; ++v) {
      const auto [first, last] = std::ranges::minmax(instance_.pins[v]);
      for (int cut = first + 1; cut <= last; ++cut) crossing_[at(cut)] += instance_.bytes[at(v)];
    }
  }

  /// Few bytes are alive there.
  int draw_cut() {
    int best = random_.below(instance_.groups + 1);
    for (int i = 1; i < kCutsDrawn; ++i) {
      const int cut = random_.below(instance_.groups + 1);
      if (crossing_[at(cut)] < crossing_[at(best)]) best = cut;
    }
    return best;
  }

  static Runs runs_of(const std::vector<int>& place_of) {
    Runs runs;
    for (int g = 0; std::cmp_less(g, place_of.size()); ++g) {
      if (runs.empty() || runs.back().place != place_of[at(g)])
        runs.push_back({g, place_of[at(g)]});
    }
    return runs;
  }

  Runs drawn() {
    Runs runs{{0, random_.below(places_.size())}};
    for (int i = random_.below(2 * places_.size()) + 1; i > 0; --i) move(runs);
    return runs;
  }

  [[nodiscard]] int end_of(const Runs& runs, std::size_t run) const {
    return run + 1 < runs.size() ? runs[run + 1].begin : instance_.groups;
  }

  /// Puts some groups that follow one another elsewhere: those at the end of a run to the one
  /// beside it, a whole run, or any.
  void move(Runs& runs) {
    const auto run = at(random_.below(static_cast<int>(runs.size())));
    const int kind = random_.below(4);
    if (kind < 2 && run > 0) return shift(runs, run);
    if (kind == 2) return paint(runs, runs[run].begin, end_of(runs, run), any_place());
    const auto [begin, end] = std::minmax({draw_cut(), draw_cut()});
    paint(runs, begin, end, any_place());
  }

  /// Where a run begins: near places are as likely as far ones by each number of digits.
  void shift(Runs& runs, std::size_t run) {
    const int begin = runs[run].begin;
    const bool back = random_.below(2) == 0;
    const int most = back ? begin - runs[run - 1].begin : end_of(runs, run) - begin;
    const int by = std::min(most, static_cast<int>(std::pow(most + 1, random_.unit())));
    if (back) return paint(runs, begin - by, begin, runs[run].place);
    paint(runs, begin, begin + by, runs[run - 1].place);
  }

  int any_place() { return random_.below(places_.size()); }

  void paint(Runs& runs, int begin, int end, int place) const {
    if (begin == end) return;
    Runs painted;
    const auto add = [&painted](int at, int to) {
      if (painted.empty() || painted.back().place != to) painted.push_back({at, to});
    };
    for (std::size_t r = 0; r < runs.size(); ++r) {
      if (runs[r].begin < begin) add(runs[r].begin, runs[r].place);
      if (runs[r].begin <= begin && begin < end_of(runs, r)) add(begin, place);
      if (end_of(runs, r) > end) add(std::max(runs[r].begin, end), runs[r].place);
    }
    runs = std::move(painted);
  }

  /// The period, and what devices hold too much; infinite: no split. Offers it where it is the
  /// best.
  double cost_of(const Runs& runs) {
    if (runs.empty()) return kInfinite;
    work_.assign(at(places_.devices()), {});
    memory_.assign(at(places_.devices()), 0);
    if (!add_groups(runs)) return kInfinite;
    for (int v = 0; v < instance_.values; ++v) add_value(runs, v);
    double period = 0, excess = 0;
    for (int d = 0; d < places_.devices(); ++d) {
      const auto type = at(places_.device_type[at(d)]);
      const double cap = instance_.type_memory[type];
      period = std::max(period, combine(work_[at(d)], instance_.type_overlap[type]));
      if (memory_[at(d)] > cap) excess += cap > 0 ? memory_[at(d)] / cap - 1 : kInfinite;
    }
    if (excess == 0 && period < best_ * kShorter) {
      best_ = period;
      offer_(split_of(runs));
    }
    return period * (1 + kExcess * excess);
  }

  /// Whether the places support their groups and no device has too many stages.
  bool add_groups(const Runs& runs) {
    stages_on_.assign(at(places_.devices()), 0);
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const auto [device, mode] = places_.list[at(runs[r].place)];
      if (++stages_on_[at(device)] > most_per_device_) return false;
      auto& compute = work_[at(device)].compute;
      compute += instance_.mode_launch[at(mode)];
      for (int g = runs[r].begin; g < end_of(runs, r); ++g) {
        compute += instance_.time_of(g, mode);
        memory_[at(device)] += instance_.memory[at(g)];
        run_of_[at(g)] = static_cast<int>(r);
      }
      if (compute == kInfinite) return false;
    }
    return true;
  }

  /// It waits on each device that has an end of it, a frame for each stage on its way; where it
  /// leaves a device it is sent once, and received once by each other.
  void add_value(const Runs& runs, int value) {
    const int from = run_of_[at(instance_.producer[at(value)])];
    const auto device_of = [&](int run) { return places_.list[at(runs[at(run)].place)].device; };
    const int home = device_of(from);
    int last = from;
    bool parted = false;
    ends_.assign(1, home);
    for (const int pin : instance_.pins[value]) {
      const int run = run_of_[at(pin)];
      parted = parted || run != from;
      last = std::max(last, run);
      if (std::ranges::find(ends_, device_of(run)) == ends_.end()) ends_.push_back(device_of(run));
    }
    if (!parted) return;
    for (const int device : ends_) {
      memory_[at(device)] += instance_.bytes[at(value)] * (last - from + 1);
      const auto cost = at(value, instance_.types, places_.device_type[at(device)]);
      if (device != home) work_[at(device)].in += instance_.receive[cost];
      if (device == home && ends_.size() > 1) work_[at(device)].out += instance_.send[cost];
    }
  }

  [[nodiscard]] Split split_of(const Runs& runs) const {
    Split split;
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const auto [device, mode] = places_.list[at(runs[r].place)];
      auto& stage = split.stages.emplace_back();
      stage.mode = mode;
      stage.devices = {device};
      for (int g = runs[r].begin; g < end_of(runs, r); ++g) stage.groups.push_back(g);
    }
    return split;
  }

  const Instance& instance_;
  const Places& places_;
  int most_per_device_;
  double best_;
  Random& random_;
  const std::function<void(const Split&)>& offer_;
  std::vector<double> crossing_;  // measure_cuts()
  std::vector<int> run_of_;       // [group]
  std::vector<int> stages_on_;    // [device]
  std::vector<int> ends_;         // Devices, of one value.
  std::vector<Work> work_;        // [device]
  std::vector<double> memory_;    // [device]
};

}  // namespace

void walk_runs(const Instance& instance, const Places& places, int most_per_device,
               const std::vector<int>& from, double period, std::int64_t steps, Random& random,
               const Budget& budget, const std::function<void(const Split&)>& offer) {
  RunWalk(instance, places, most_per_device, period, random, offer).run(from, steps, budget);
}

}  // namespace penstock::planner
