// Searches small problems to the end; else anneals in rounds, on devices or in ordered slots.
#include "penstock/planner/throughput/virtual_stages.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "penstock/planner/bounds/prices.h"
#include "penstock/planner/bounds/virtual_bound.h"
#include "penstock/planner/search/multilevel.h"
#include "penstock/planner/search/small_search.h"
#include "penstock/planner/throughput/assignments.h"
#include "penstock/planner/throughput/run_walk.h"
#include "penstock/planner/throughput/segments.h"
#include "penstock/planner/throughput/slots.h"

namespace penstock::planner {
namespace {

constexpr double kLessScore = 1 - 1e-12;         // Smaller gains are rounding.
constexpr std::int64_t kMostNodes = 200'000;     // Of the search through all assignments.
constexpr std::int64_t kMostCut = 1'000'000;     // Stages, of the search through all splits.
constexpr double kSmallShare = 0.5;              // Of the time, for it.
constexpr std::int64_t kPatience = 100'000'000;  // Moves without gain.
constexpr std::int64_t kLeastEffort = 100, kMostEffort = 1000;  // Moves for each group in a round.
constexpr int kTidyPasses = 20;
constexpr std::int64_t kRunSteps = 40;  // Of a walk of runs, for each move of a group in a round.
constexpr std::size_t kPool = 8;        // Assignments kept, of which two are put together.

/// The problem without order: what a device does does not depend on it, only the stages do.
Problem unordered(Problem problem) {
  problem.order.clear();
  return problem;
}

/// What bounds hold for: stages of one device may run groups that stay together in several modes.
Problem relaxed(Problem problem) {
  std::vector<int> modes_of(problem.types.size(), 0);
  for (const auto& mode : problem.modes) ++modes_of[at(mode.type)];
  if (std::ranges::any_of(modes_of, [](int count) { return count > 1; })) problem.colocated.clear();
  problem.order.clear();
  return problem;
}

Lists after_lists(const Problem& problem) {
  std::vector<std::vector<int>> after(problem.groups.size());
  for (const auto& [first, second] : problem.order) after[at(first)].push_back(second);
  Lists lists;
  for (const auto& list : after) lists.add(list);
  return lists;
}

/// The best split so far, and what may replace it.
class Best {
 public:
  Best(const Problem& problem, const Options& options, const Split& start,
       const BoundsReport& report)
      : problem_(problem), options_(options), report_(report) {
    if (!start.stages.empty()) offer(start);
  }

  [[nodiscard]] const std::optional<Split>& split() const { return split_; }
  [[nodiscard]] double period() const { return period_; }

  /// Keeps the split if it is allowed and better. Tells whether it is allowed.
  bool offer(const Split& split) {
    const auto found = evaluate(problem_, split);
    if (!found.violations.empty() || !keeps_cap(options_, found)) return false;
    if (!allows(options_, split)) return false;
    const bool faster = found.period < period_ * kLessScore;
    const bool shorter = found.period <= period_ && found.latency < latency_ * kLessScore;
    if (faster || shorter) {
      split_ = split;
      period_ = found.period;
      latency_ = found.latency;
    }
    if (faster && report_) report_(0, period_);
    return true;
  }

 private:
  const Problem& problem_;
  const Options& options_;
  const BoundsReport& report_;
  std::optional<Split> split_;
  double period_ = kInfinite, latency_ = kInfinite;
};

class VirtualSearch {
 public:
  VirtualSearch(const Problem& problem, const Options& options, const Split& start,
                const Budget& budget, const BoundsReport& report)
      : problem_(problem),
        options_(options),
        budget_(budget),
        report_(report),
        best_(problem, options, start, report),
        after_(after_lists(problem)) {
    judged_ = options.latency_cap < kInfinite || problem.frames_in_flight;
    slots_ = judged_ || at(options.segments_per_device) < problem.groups.size() ||
             std::ranges::any_of(problem.modes, [](const Mode& mode) { return mode.launch > 0; });
  }

  Outcome run() {
    const bool limited =
        std::ranges::none_of(problem_.types, [](const DeviceType& type) { return type.unlimited; });
    if (judged_ && !options_.replicas) try_small();
    if (!met() && limited && make_instances()) {
      for (int i = 0; i < 2; ++i) {  // The better the plan, the smaller the problem.
        raise_bound();
        if (!options_.replicas) try_all();
        if (i == 0) improve();
      }
    }
    const bool none = !best_.split() && bound_ == kInfinite;
    return {best_.split(), best_.period(), std::min(bound_, best_.period()), none};
  }

 private:
  bool make_instances() {
    auto free = make_instance(unordered(problem_), Partner::kHighest);
    auto whole = make_instance(problem_, Partner::kHighest);
    if (!free) return false;
    free_ = *std::move(free);
    places_ = all_places(free_);
    if (whole) whole_ = *std::move(whole);
    std::vector<int> block_of(problem_.groups.size(), 0);
    for (int g = 0; g < free_.groups; ++g) {
      for (const int member : free_.members[g]) block_of[at(member)] = g;
    }
    std::vector<std::vector<int>> neighbours(at(free_.groups));
    for (const auto& [first, second] : problem_.order) {
      neighbours[at(block_of[at(first)])].push_back(block_of[at(second)]);
      neighbours[at(block_of[at(second)])].push_back(block_of[at(first)]);
    }
    for (const auto& list : neighbours) neighbours_.add(list);
    return true;
  }

  /// The better the best split, the closer the bound.
  void raise_bound() {
    const auto instance = make_instance(relaxed(problem_), Partner::kLowest);
    if (!instance) return;
    const double bound = options_.replicas ? period_bound(*instance, make_prices(*instance), true)
                                           : virtual_bound(*instance, best_.period());
    bound_ = std::max(bound_, bound);
    if (report_) report_(bound_, best_.period());
  }

  [[nodiscard]] bool met() const { return best_.period() <= bound_ * (1 + 1e-9); }

  /// Small problems: every split, where no bound but evaluate() knows which may be kept.
  void try_small() {
    const auto found = search_small(problem_, options_, best_.period(), kMostCut,
                                    budget_.part(kSmallShare * budget_.left()));
    if (found.split) best_.offer(*found.split);
    if (found.ended) bound_ = std::max(bound_, best_.period());
  }

  /// Small problems: every assignment, at costs that none undercuts.
  void try_all() {
    const auto relaxation = make_instance(relaxed(problem_), Partner::kLowest);
    if (!relaxation || budget_.over()) return;
    const std::set<int> types(relaxation->mode_type.begin(), relaxation->mode_type.end());
    std::optional<Instance> instance = *relaxation;
    if (std::cmp_equal(types.size(), instance->modes)) instance = fuse(*relaxation, best_.period());
    if (!instance) return;  // The bound knows.
    const auto places = all_places(*instance);
    const auto prices = make_prices(*instance);
    AssignmentJudge judge;
    judge.most_nodes = kMostNodes;
    judge.best = [&] { return best_.period(); };
    judge.settle = [&](const std::vector<int>& place_of, double period) {
      return settle(*instance, places, place_of, period);
    };
    const auto bound = search_assignments(*instance, places, prices.front(), judge, budget_);
    if (bound) bound_ = std::max(bound_, std::min(*bound, best_.period()));
  }

  double settle(const Instance& instance, const Places& places, const std::vector<int>& place_of,
                double period) {
    const auto cut = cut_members(instance, places, place_of);
    if (cut.segments.empty()) return cut.tried_all ? kInfinite : period;
    best_.offer(stages_of(places, cut));
    return period;
  }

  SegmentCut cut_members(const Instance& instance, const Places& places,
                         const std::vector<int>& place_of) const {
    std::vector<int> member_place(problem_.groups.size());
    for (int g = 0; g < instance.groups; ++g) {
      for (const int member : instance.members[g]) member_place[at(member)] = place_of[at(g)];
    }
    return cut_segments(after_, places, member_place, options_.segments_per_device);
  }

  static Split stages_of(const Places& places, const SegmentCut& cut) {
    Split split;
    for (const auto& segment : cut.segments) {
      const auto [device, mode] = places.list[at(segment.place)];
      split.stages.push_back({segment.groups, mode, {device}});
    }
    return split;
  }

  void improve() {
    for (int round = 0; !budget_.over() && !met(); ++round) {
      const double before = best_.period();
      const auto effort = std::min(kMostEffort, kLeastEffort << std::min(round / 2, 10));
      // Of six rounds one begins anew, one puts two of the best assignments together, and four go
      // on from the best.
      const int turn = round % 6;
      const LevelOptions options{turn == 0, effort, {}};
      if (turn == 3 && pool_.size() > 1 && free_in_vain_ <= 3) {
        join_round(effort);
      } else if (slots_ && (turn != 0 || free_in_vain_ > 3)) {
        slot_round(options);
      } else if (turn != 0 && best_.split() && places_.devices() > 2) {
        focus_round(effort);
      } else {
        free_round(options);
      }
      if (problem_.frames_in_flight) run_round(round, effort);
      idle_ = best_.period() < before ? 0 : idle_ + effort * free_.groups;
      if (idle_ > kPatience) break;
    }
  }

  /// Groups move between devices.
  void free_round(const LevelOptions& options) {
    auto from = best_.split() ? place_groups(free_, places_, *best_.split()) : std::nullopt;
    LevelOptions own = options;
    if (!from) {
      from = any_places();
      own.fresh = true;
    }
    const auto found =
        anneal_levels(Loads(free_, places_, *std::move(from)), own, random_, budget_, {});
    put_into_pool(found, own.fresh);
    take(found);
  }

  /// Groups of the busiest device and of one or two others move among these: what the others do
  /// stays, so that a walk as long goes over few groups.
  void focus_round(std::int64_t effort) {
    constexpr int kTurns = 4;
    auto from = place_groups(free_, places_, *best_.split());
    for (int turn = 0; from && turn < kTurns && !budget_.over(); ++turn) {
      Loads loads(free_, places_, *from);
      Schedule schedule{0.02, 1e-5, effort * free_.groups, {busiest(loads)}};
      const int more = 1 + random_.below(2);
      for (int i = 0; i < more; ++i) schedule.only.push_back(random_.below(places_.devices()));
      const auto found = anneal(loads, schedule, random_, budget_, {});
      if (found.place_of.empty()) return;
      if (found.period < best_.period()) from = found.place_of;
      put_into_pool(found, false);
      take(found);
    }
  }

  static int busiest(const Loads& loads) {
    int most = 0;
    for (int d = 1; d < loads.places().devices(); ++d) {
      if (loads.load(d) > loads.load(most)) most = d;
    }
    return most;
  }

  /// What two assignments of the pool keep together moves as one, from the better of the two.
  void join_round(std::int64_t effort) {
    const auto count = static_cast<int>(pool_.size());
    int one = random_.below(count), two = random_.below(count - 1);
    if (two >= one) ++two;
    if (pool_[at(two)].period < pool_[at(one)].period) std::swap(one, two);
    auto& better = pool_[at(one)];
    const LevelOptions options{false, effort, pool_[at(two)].place_of};
    const auto found =
        anneal_levels(Loads(free_, places_, better.place_of), options, random_, budget_, {});
    if (found.period < better.period) better = found;
    take(found);
  }

  /// Those drawn anew take the place of the worst, others that of the best that they come from: so
  /// that the pool stays diverse.
  void put_into_pool(const Annealed& found, bool fresh) {
    if (found.place_of.empty()) return;
    if (pool_.empty() || (fresh && pool_.size() < kPool)) return pool_.push_back(found);
    auto& other = fresh ? *std::ranges::max_element(pool_, {}, &Annealed::period)
                        : *std::ranges::min_element(pool_, {}, &Annealed::period);
    if (found.period < other.period) other = found;
  }

  void take(const Annealed& found) {
    if (found.place_of.empty() || !(found.period < best_.period() * (1 + 1e-12))) return;
    const auto cut = cut_members(free_, places_, tidy(found));
    const bool allowed = !cut.segments.empty() && best_.offer(stages_of(places_, cut));
    free_in_vain_ = allowed ? 0 : free_in_vain_ + 1;
  }

  /// For each group a place that supports it.
  [[nodiscard]] std::vector<int> any_places() const {
    std::vector<int> place_of;
    for (int g = 0; g < free_.groups; ++g) {
      const auto fits = [&](const Place& place) {
        return free_.time_of(g, place.mode) < kInfinite;
      };
      const auto found = std::ranges::find_if(places_.list, fits);
      place_of.push_back(static_cast<int>(found - places_.list.begin()));
    }
    return place_of;
  }

  /// Groups go where most of their neighbours are, as long as the period stays: fewer stages.
  [[nodiscard]] std::vector<int> tidy(const Annealed& found) const {
    Loads loads(free_, places_, found.place_of);
    const double most = std::max(found.period, loads.period());
    bool changed = true;
    for (int pass = 0; pass < kTidyPasses && changed; ++pass) {
      changed = false;
      for (int g = 0; g < free_.groups; ++g) changed = tidy_group(loads, g, most) || changed;
    }
    return loads.place_of();
  }

  bool tidy_group(Loads& loads, int group, double most) const {
    std::map<int, int> count;
    for (const int g : neighbours_[group]) ++count[loads.place_of()[at(g)]];
    const int here = count[loads.place_of()[at(group)]];
    for (const auto& [place, there] : count) {
      const int from = loads.device_of(group), to = places_.list[at(place)].device;
      if (there <= here || !loads.supports(group, place)) continue;
      if (from != to && loads.memory(to) + free_.memory[at(group)] > loads.memory_cap(to)) {
        continue;
      }
      const auto change = loads.change(group, place);
      if (loads.load_with(from, change.left) > most || loads.load_with(to, change.joined) > most) {
        continue;
      }
      loads.move(group, place, change);
      return true;
    }
    return false;
  }

  /// Where frames in flight take memory: from the best split, and every other time anew. Mostly
  /// with two or three stages on a device, so that what these can do is found where more are
  /// allowed too.
  void run_round(int round, std::int64_t effort) {
    if (!whole_) return;
    const bool fresh = round % 2 != 0 || !best_.split();
    auto from = fresh ? std::nullopt : place_groups(*whole_, places_, *best_.split());
    const int most = round % 3 == 2 ? options_.segments_per_device
                                    : std::min(options_.segments_per_device, 2 + round % 3);
    walk_runs(*whole_, places_, most, from ? *std::move(from) : std::vector<int>(), best_.period(),
              kRunSteps * effort, random_, budget_,
              [&](const Split& split) { best_.offer(expand(*whole_, split)); });
  }

  /// Groups move between stages of a fixed order.
  void slot_round(const LevelOptions& options) {
    if (!whole_) return;
    anneal_slots(*whole_, best_.split(), options_.segments_per_device, judged_, options, random_,
                 budget_, [&](const Split& split) { return best_.offer(split); });
  }

  const Problem& problem_;
  const Options& options_;
  const Budget& budget_;
  const BoundsReport& report_;
  Best best_;
  Lists after_;                    // [problem's group]
  Instance free_;                  // Without order.
  std::optional<Instance> whole_;  // With it; groups that stay together are one.
  Places places_;                  // Of `free_`.
  Lists neighbours_;               // [group of `free_`] By order, before and after.
  bool judged_ = false;            // What may be kept only evaluate() knows.
  bool slots_ = false;             // Stages matter, not devices alone.
  int free_in_vain_ = 0;           // Free rounds whose result was not allowed.
  std::vector<Annealed> pool_;     // Good assignments of `free_`.
  double bound_ = 0;
  std::int64_t idle_ = 0;  // Moves since the last gain.
  Random random_{1};
};

}  // namespace

Outcome search_virtual(const Problem& problem, const Options& options, const Split& start,
                       const Budget& budget, const BoundsReport& report) {
  return VirtualSearch(problem, options, start, budget, report).run();
}

}  // namespace penstock::planner
