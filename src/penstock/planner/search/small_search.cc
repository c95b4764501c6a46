// Depth-first branch and bound over stages as bit sets, cut by latency, loads and the room left.
#include "penstock/planner/search/small_search.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "penstock/planner/problem/fits.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/search/loads.h"

namespace penstock::planner {
namespace {

using Set = std::uint32_t;  // Of groups, or of stages: there are no more of them.

constexpr std::size_t kMostSearchedGroups = 16, kMostSearchedDevices = 64;
constexpr double kLessPeriod = 1 - 1e-12;    // Smaller gains are rounding.
constexpr double kCapRounding = 1e-9;        // Relative: evaluate() has the last word on the cap.
constexpr std::int64_t kNodesUnasked = 256;  // Of the budget.
constexpr int kNowhere = -1;

bool has(Set set, int i) {
  return (set >> i & 1U) != 0;
}

template <typename Function>
void each(Set set, const Function& function) {
  for (; set != 0; set &= set - 1) function(std::countr_zero(set));
}

/// What the search needs to know about the groups, as sets.
struct Relations {
  explicit Relations(const Problem& problem);

  std::vector<Set> before;   // [group] By order.
  std::vector<Set> sources;  // [group] `before`, and who writes what it reads.
  std::vector<Set> linked;   // [group] By order or value, in any direction.
  std::vector<Set> kept;     // [group] Must be on its device.
  std::vector<int> topological;
};

Relations::Relations(const Problem& problem) {
  const auto groups = problem.groups.size();
  before.resize(groups, 0);
  kept.resize(groups, 0);
  for (const auto& [first, second] : problem.order) before[at(second)] |= Set{1} << first;
  sources = before;
  for (const auto& value : problem.values) {
    for (const int group : value.consumers) sources[at(group)] |= Set{1} << value.producer;
  }
  linked = sources;
  for (int g = 0; at(g) < groups; ++g) {
    each(sources[at(g)], [&](int other) { linked[at(other)] |= Set{1} << g; });
  }
  for (const auto& set : problem.colocated) {
    for (const int g : set) {
      for (const int other : set) kept[at(g)] |= Set{1} << other;
    }
  }
  for (Set done = 0; topological.size() < groups;) {
    for (int g = 0; at(g) < groups; ++g) {
      if (has(done, g) || (before[at(g)] & ~done) != 0) continue;
      done |= Set{1} << g;
      topological.push_back(g);
    }
  }
}

/// A stage that has been placed, or is being filled.
struct Placed {
  int mode = 0, type = 0;
  int device = kNowhere;  // kNowhere: of an unlimited type.
  Set groups = 0;
  Set sources = 0;  // Earlier stages that it waits for.
  double compute = 0;
};

class SmallSearch {
 public:
  SmallSearch(const Problem& problem, const Options& options, double below, std::int64_t most_nodes,
              const Budget& budget)
      : problem_(problem),
        options_(options),
        budget_(budget),
        relations_(problem),
        groups_(static_cast<int>(problem.groups.size())),
        best_(below),
        nodes_left_(most_nodes),
        stage_of_(problem.groups.size(), kNowhere),
        early_(problem.groups.size(), 0) {
    for (int t = 0; at(t) < problem.types.size(); ++t) {
      first_device_.push_back(static_cast<int>(type_of_.size()));
      type_of_.resize(type_of_.size() + problem.types[at(t)].devices.size(), t);
    }
    first_device_.push_back(static_cast<int>(type_of_.size()));
    const auto devices = type_of_.size();
    uses_.resize(devices, 0);
    memory_.resize(devices, 0);
    compute_.resize(devices, 0);
    work_.resize(devices);
    free_.resize(devices, 0);
    receiver_of_.resize(devices, 0);
    count_least_times();
  }

  SmallResult run() {
    extend();
    result_.ended = nodes_left_ > 0;
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool latency_counts() const { return options_.goal == Goal::kLatency; }
  [[nodiscard]] const DeviceType& type(int t) const { return problem_.types[at(t)]; }
  [[nodiscard]] int stages() const { return static_cast<int>(stages_.size()); }

  void count_least_times() {
    for (const auto& group : problem_.groups) {
      double least = kInfinite, on_devices = kInfinite;
      for (std::size_t m = 0; m < problem_.modes.size(); ++m) {
        const bool unlimited = type(problem_.modes[m].type).unlimited;
        least = std::min(least, group.time[m]);
        if (group.time[m] < kInfinite)
          on_devices = std::min(on_devices, unlimited ? 0 : group.time[m]);
      }
      least_.push_back(least);
      on_devices_.push_back(on_devices);
    }
  }

  // --- The tree ----------------------------------------------------------------------------------

  /// Tries every next stage.
  void extend() {
    if (std::popcount(done_) == groups_) return judge();
    for (int m = 0; at(m) < problem_.modes.size(); ++m) {
      const int t = problem_.modes[at(m)].type;
      if (type(t).unlimited) fill({m, t, kNowhere, 0, 0, 0}, 0);
      bool fresh = false;  // The first device without stages stands for all of them.
      for (int d = first_device_[at(t)]; d < first_device_[at(t) + 1] && !fresh; ++d) {
        fresh = uses_[at(d)] == 0;
        if (uses_[at(d)] < options_.segments_per_device) fill({m, t, d, 0, 0, 0}, 0);
      }
    }
  }

  /// Decides for each group from this position on whether the stage has it, then goes on.
  void fill(const Placed& stage, int position) {
    if (nodes_left_ <= 0) return;
    if (position == groups_) {
      if (stage.groups != 0) place(stage);
      return;
    }
    const int group = relations_.topological[at(position)];
    if (admits(stage, group)) {
      auto larger = stage;
      larger.groups |= Set{1} << group;
      fill(larger, position + 1);
    }
    fill(stage, position + 1);
  }

  [[nodiscard]] bool admits(const Placed& stage, int group) const {
    if (has(done_, group)) return false;
    if ((relations_.before[at(group)] & ~(done_ | stage.groups)) != 0) return false;
    if (problem_.groups[at(group)].time[at(stage.mode)] == kInfinite) return false;
    if (stage.device == kNowhere && stage.groups != 0) return false;
    return fits_memory(stage, group) && joins_its_set(stage, group);
  }

  [[nodiscard]] bool fits_memory(const Placed& stage, int group) const {
    double bytes = stage.device == kNowhere ? 0 : memory_[at(stage.device)];
    each(stage.groups | Set{1} << group, [&](int g) { bytes += problem_.groups[at(g)].memory; });
    return fits(bytes, type(stage.type).memory);
  }

  [[nodiscard]] bool joins_its_set(const Placed& stage, int group) const {
    bool same = true;
    each(relations_.kept[at(group)] & done_, [&](int other) {
      const auto& theirs = stages_[at(stage_of_[at(other)])];
      same = same && theirs.device == stage.device && theirs.type == stage.type;
    });
    return same;
  }

  void place(Placed stage) {
    if (--nodes_left_ % kNodesUnasked == 0 && budget_.over()) nodes_left_ = 0;
    if (nodes_left_ <= 0 || another_order_stands_for(stage)) return;
    stage.compute = problem_.modes[at(stage.mode)].launch;
    double bytes = 0;
    each(stage.groups, [&](int g) {
      stage.compute += problem_.groups[at(g)].time[at(stage.mode)];
      bytes += problem_.groups[at(g)].memory;
      stage_of_[at(g)] = stages();
      each(relations_.sources[at(g)] & done_,
           [&](int source) { stage.sources |= Set{1} << stage_of_[at(source)]; });
    });
    done_ |= stage.groups;
    stages_.push_back(stage);
    const auto go_on = [&] {
      if (promising()) extend();
    };
    stage.device == kNowhere ? go_on() : with_use(stage, bytes, go_on);
    stages_.pop_back();
    done_ &= ~stage.groups;
    each(stage.groups, [&](int g) { stage_of_[at(g)] = kNowhere; });
  }

  template <typename Function>
  void with_use(const Placed& stage, double bytes, const Function& function) {
    const auto d = at(stage.device);
    const double memory = memory_[d], compute = compute_[d];  // Exact again afterwards.
    ++uses_[d];
    memory_[d] += bytes;
    compute_[d] += stage.compute;
    function();
    --uses_[d];
    memory_[d] = memory;
    compute_[d] = compute;
  }

  /// Neighbours on different devices that have nothing to do with each other stand in the order of
  /// their first groups: the other one makes no difference, but where frames wait.
  [[nodiscard]] bool another_order_stands_for(const Placed& stage) const {
    if (problem_.frames_in_flight || stages_.empty()) return false;
    const auto& last = stages_.back();
    if (last.device == stage.device && stage.device != kNowhere) return false;
    if (std::countr_zero(last.groups) < std::countr_zero(stage.groups)) return false;
    Set linked = 0;
    each(stage.groups, [&](int g) { linked |= relations_.linked[at(g)]; });
    return (linked & last.groups) == 0;
  }

  void judge() {
    Split split;
    for (const auto& placed : stages_) {
      Stage stage{{}, placed.mode, {}};
      each(placed.groups, [&](int g) { stage.groups.push_back(g); });
      if (placed.device != kNowhere) stage.devices = {placed.device};
      split.stages.push_back(std::move(stage));
    }
    const auto found = evaluate(problem_, split);
    if (!found.violations.empty() || found.latency > options_.latency_cap) return;
    const double cost = latency_counts() ? found.latency : found.period;
    if (cost >= best_) return;
    best_ = cost;
    result_.split = std::move(split);
    result_.cost = cost;
  }

  // --- Bounds: what is placed costs at least so much -------------------------------------------

  bool promising() {
    add_transfers();
    const double most = best_ * kLessPeriod, cap = options_.latency_cap * (1 + kCapRounding);
    const double latest = latency_counts() ? std::min(most, cap) : cap;
    if (least_latency() > latest) return false;
    if (!rest_has_room(latest, [&](int d) { return free_[at(d)]; })) return false;
    if (latency_counts()) return true;
    for (int d = 0; at(d) < work_.size(); ++d) {
      if (combine(work_[at(d)], overlap(d)) >= most) return false;
    }
    const auto used = [&](int d) {
      const auto& work = work_[at(d)];
      return overlap(d) == Overlap::kSerial ? combine(work, Overlap::kSerial) : work.compute;
    };
    return rest_has_room(most, used);
  }

  [[nodiscard]] Overlap overlap(int device) const { return type(type_of_[at(device)]).overlap; }

  /// Whether the groups that are left, at their least times, go where stages may still go.
  template <typename Used>
  [[nodiscard]] bool rest_has_room(double most, const Used& used) const {
    double rest = 0, room = 0;
    for (int g = 0; g < groups_; ++g) rest += has(done_, g) ? 0 : on_devices_[at(g)];
    for (int d = 0; at(d) < uses_.size(); ++d) {
      if (uses_[at(d)] == options_.segments_per_device) continue;
      room += most * (1 + kCapRounding) - used(d);
    }
    return rest <= room;
  }

  /// What is moved between placed groups, for each device and for each stage.
  void add_transfers() {
    for (std::size_t d = 0; d < work_.size(); ++d) work_[d] = {compute_[d], 0, 0};
    duration_.clear();
    for (const auto& stage : stages_) duration_.push_back(stage.compute);
    for (const auto& value : problem_.values) add_value(value);
  }

  void add_value(const Value& value) {
    const int writer = stage_of_[at(value.producer)];
    if (writer == kNowhere) return;
    Set readers = 0;
    for (const int group : value.consumers) {
      if (has(done_, group)) readers |= Set{1} << stage_of_[at(group)];
    }
    readers &= ~(Set{1} << writer);
    const auto& from = stages_[at(writer)];
    double sent = 0;
    ++value_mark_;
    each(readers, [&](int s) {
      const auto& to = stages_[at(s)];
      if (to.device == from.device && to.device != kNowhere) return;
      const double time = transfer_time(problem_, value, from.type, to.type);
      sent = std::max(sent, time);
      receive(s, time);
    });
    if (!type(from.type).pays_transfers) return;
    duration_[at(writer)] += sent;
    if (from.device != kNowhere) work_[at(from.device)].out += sent;
  }

  /// A device receives each value once, for its first stage that reads it.
  void receive(int s, double time) {
    const auto& stage = stages_[at(s)];
    if (stage.device != kNowhere) {
      if (receiver_of_[at(stage.device)] == value_mark_) return;
      receiver_of_[at(stage.device)] = value_mark_;
    }
    if (!type(stage.type).pays_transfers) return;
    duration_[at(s)] += time;
    if (stage.device != kNowhere) work_[at(stage.device)].in += time;
  }

  /// The frame through the placed stages, then along paths through the groups that are left.
  double least_latency() {
    std::ranges::fill(free_, 0);
    end_.clear();
    double last = 0;
    for (int s = 0; s < stages(); ++s) {
      const auto& stage = stages_[at(s)];
      double start = stage.device == kNowhere ? 0 : free_[at(stage.device)];
      each(stage.sources, [&](int source) { start = std::max(start, end_[at(source)]); });
      end_.push_back(start + duration_[at(s)]);
      if (stage.device != kNowhere) free_[at(stage.device)] = end_.back();
      last = std::max(last, end_.back());
    }
    for (const int g : relations_.topological) {
      if (has(done_, g)) {
        early_[at(g)] = end_[at(stage_of_[at(g)])];
        continue;
      }
      double start = 0;
      each(relations_.before[at(g)],
           [&](int other) { start = std::max(start, early_[at(other)]); });
      early_[at(g)] = start + least_[at(g)];
      last = std::max(last, early_[at(g)]);
    }
    return last;
  }

  const Problem& problem_;
  const Options& options_;
  const Budget& budget_;
  const Relations relations_;
  int groups_;
  double best_;
  std::int64_t nodes_left_;
  SmallResult result_;
  std::vector<int> type_of_;        // [device]
  std::vector<int> first_device_;   // [type]; one more at the end.
  std::vector<double> least_;       // [group] Least time.
  std::vector<double> on_devices_;  // [group] The same, 0 where it needs no device.
  // What is placed.
  Set done_ = 0;
  std::vector<Placed> stages_;
  std::vector<int> stage_of_;             // [group]
  std::vector<int> uses_;                 // [device] Stages on it.
  std::vector<double> memory_, compute_;  // [device]
  // What promising() finds out.
  std::vector<Work> work_;                 // [device]
  std::vector<double> duration_, end_;     // [stage]
  std::vector<double> free_;               // [device] When it has ended its last stage.
  std::vector<double> early_;              // [group] When it has ended at the earliest.
  std::vector<std::int64_t> receiver_of_;  // [device] The mark of the value that it received last.
  std::int64_t value_mark_ = 0;
};

}  // namespace

SmallResult search_small(const Problem& problem, const Options& options, double below,
                         std::int64_t most_nodes, const Budget& budget) {
  std::size_t devices = 0;
  for (const auto& type : problem.types) devices += type.devices.size();
  if (problem.groups.size() > kMostSearchedGroups || devices > kMostSearchedDevices ||
      budget.over())
    return {};
  return SmallSearch(problem, options, below, most_nodes, budget).run();
}

}  // namespace penstock::planner
