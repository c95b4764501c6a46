// The independent judge: shares no code with the instance or the searches.
#include <algorithm>
#include <set>

#include "penstock/planner/problem/split.h"

namespace penstock::planner {
namespace {

std::size_t index_of(int index) {
  return static_cast<std::size_t>(index);
}

constexpr int kNotPlaced = -1;

class Judge {
 public:
  Judge(const Problem& problem, const Split& split) : problem_(problem), split_(split) {
    for (std::size_t t = 0; t < problem.types.size(); ++t) {
      for (const auto& device : problem.types[t].devices) {
        type_of_device_.push_back(static_cast<int>(t));
        name_of_device_.push_back(device);
      }
    }
    result_.devices.resize(type_of_device_.size());
  }

  Evaluation run() {
    if (!check_indices()) {
      result_.period = result_.latency = kInfinite;
      return std::move(result_);
    }
    check_devices();
    check_support();
    check_order();
    check_colocated();
    add_compute();
    add_transfers();
    add_memory();
    combine();
    result_.latency = latency();
    return std::move(result_);
  }

 private:
  template <typename... Args>
  void broken(const Args&... args) {
    result_.violations.push_back(concat(args...));
  }

  // --- Where things are ------------------------------------------------------------------------

  [[nodiscard]] int stages() const { return static_cast<int>(split_.stages.size()); }
  [[nodiscard]] const Stage& stage(int s) const { return split_.stages[index_of(s)]; }
  [[nodiscard]] int type_index(int s) const { return problem_.modes[index_of(stage(s).mode)].type; }
  [[nodiscard]] const DeviceType& type(int s) const {
    return problem_.types[index_of(type_index(s))];
  }
  [[nodiscard]] double replicas(int s) const {
    return static_cast<double>(std::max<std::size_t>(1, stage(s).devices.size()));
  }

  /// Whether what one stage writes reaches the other without a transfer.
  [[nodiscard]] bool together(int s, int other) const {
    if (s == other) return true;
    const auto &mine = stage(s).devices, &theirs = stage(other).devices;
    return !mine.empty() && mine == theirs;
  }

  /// The stages that read `value`, ascending, each once.
  [[nodiscard]] std::vector<int> readers(const Value& value) const {
    std::vector<int> found;
    for (const int group : value.consumers) found.push_back(stage_of_[index_of(group)]);
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }
  [[nodiscard]] int writer(const Value& value) const { return stage_of_[index_of(value.producer)]; }

  [[nodiscard]] double own_compute(int s) const {
    const auto mode = index_of(stage(s).mode);
    double sum = problem_.modes[mode].launch;
    for (const int group : stage(s).groups) sum += problem_.groups[index_of(group)].time[mode];
    return sum;
  }

  /// Time of moving `value` between devices of these types.
  [[nodiscard]] double transfer(const Value& value, int from, int to) const {
    double time = value.transfer_time;
    if (!problem_.links.empty()) {
      const auto& link = problem_.links[index_of(from)][index_of(to)];
      time += link.latency + value.bytes / link.bandwidth;
    }
    return time;
  }

  /// Time at the sender: that of the most expensive reader elsewhere; 0 where there is none.
  [[nodiscard]] double sending(const Value& value) const {
    const int from = writer(value);
    if (!type(from).pays_transfers) return 0;
    double most = 0;
    for (const int s : readers(value)) {
      if (together(from, s)) continue;
      most = std::max(most, transfer(value, type_index(from), type_index(s)));
    }
    return most;
  }

  [[nodiscard]] double receiving(const Value& value, int s) const {
    const int from = writer(value);
    if (together(from, s) || !type(s).pays_transfers) return 0;
    return transfer(value, type_index(from), type_index(s));
  }

  /// The stages that read `value` and whose device did not have it before.
  [[nodiscard]] std::vector<int> receivers(const Value& value) const {
    std::vector<int> found;
    for (const int s : readers(value)) {
      const auto same = [&](int other) { return together(s, other); };
      if (same(writer(value)) || std::ranges::any_of(found, same)) continue;
      found.push_back(s);
    }
    return found;
  }

  // --- Rules -----------------------------------------------------------------------------------

  /// What must hold for anything else to be asked: indices in range, each group in one stage.
  bool check_indices() {
    const auto before = result_.violations.size();
    stage_of_.assign(problem_.groups.size(), kNotPlaced);
    for (int s = 0; s < stages(); ++s) {
      if (stage(s).mode < 0 || index_of(stage(s).mode) >= problem_.modes.size()) {
        broken("stage ", s, ": there is no mode ", stage(s).mode);
      }
      if (stage(s).groups.empty()) broken("stage ", s, ": has no group");
      for (const int device : stage(s).devices) {
        if (device >= 0 && index_of(device) < type_of_device_.size()) continue;
        broken("stage ", s, ": there is no device ", device);
      }
      for (const int group : stage(s).groups) place(group, s);
    }
    for (std::size_t g = 0; g < stage_of_.size(); ++g) {
      if (stage_of_[g] == kNotPlaced) {
        broken("group '", problem_.groups[g].name, "': is in no stage");
      }
    }
    return result_.violations.size() == before;
  }

  void place(int group, int s) {
    if (group < 0 || index_of(group) >= stage_of_.size()) {
      return broken("stage ", s, ": there is no group ", group);
    }
    if (stage_of_[index_of(group)] != kNotPlaced) {
      broken("group '", problem_.groups[index_of(group)].name, "': is in stage ",
             stage_of_[index_of(group)], " and in stage ", s);
    }
    stage_of_[index_of(group)] = s;
  }

  void check_devices() {
    std::vector<int> used(type_of_device_.size(), kNotPlaced);  // By which stage.
    for (int s = 0; s < stages(); ++s) {
      const auto& devices = stage(s).devices;
      if (type(s).unlimited) {
        if (stage(s).groups.size() > 1) {
          broken("stage ", s, ": more than one group on unlimited type '", type(s).name, "'");
        }
      } else if (devices.empty()) {
        broken("stage ", s, ": has no device");
      }
      for (const int device : devices) {
        const auto& name = name_of_device_[index_of(device)];
        if (type_of_device_[index_of(device)] != type_index(s)) {
          broken("stage ", s, ": device '", name, "' is not of type '", type(s).name, "'");
        }
        int& other = used[index_of(device)];
        if (other == s) broken("stage ", s, ": names device '", name, "' twice");
        if (other != kNotPlaced && other != s &&
            (devices.size() > 1 || stage(other).devices.size() > 1)) {
          broken("stage ", s, ": shares device '", name, "' with stage ", other,
                 ", and one of them has replicas");
        }
        other = s;
      }
    }
  }

  void check_support() {
    for (int s = 0; s < stages(); ++s) {
      for (const int group : stage(s).groups) {
        if (problem_.groups[index_of(group)].time[index_of(stage(s).mode)] < kInfinite) continue;
        broken("group '", problem_.groups[index_of(group)].name, "': mode '",
               problem_.modes[index_of(stage(s).mode)].name, "' does not support it");
      }
    }
  }

  void check_order() {
    for (const auto& [before, after] : problem_.order) {
      const int first = stage_of_[index_of(before)], second = stage_of_[index_of(after)];
      if (first <= second) continue;
      broken("stage ", second, ": group '", problem_.groups[index_of(after)].name,
             "' needs group '", problem_.groups[index_of(before)].name, "' of the later stage ",
             first);
    }
  }

  void check_colocated() {
    for (const auto& set : problem_.colocated) {
      for (const int group : set) {
        const int s = stage_of_[index_of(group)], other = stage_of_[index_of(set.front())];
        const bool both_unlimited = type(s).unlimited && type_index(s) == type_index(other);
        if (together(s, other) || both_unlimited) continue;
        broken("group '", problem_.groups[index_of(group)].name,
               "': is on another device than group '", problem_.groups[index_of(set.front())].name,
               "', with which it must stay");
      }
    }
  }

  // --- Loads -----------------------------------------------------------------------------------

  void add_compute() {
    for (int s = 0; s < stages(); ++s) {
      for (const int device : stage(s).devices) {
        result_.devices[index_of(device)].compute += own_compute(s) / replicas(s);
      }
    }
  }

  void add_transfers() {
    for (const auto& value : problem_.values) {
      const int from = writer(value);
      for (const int device : stage(from).devices) {
        result_.devices[index_of(device)].out += sending(value) / replicas(from);
      }
      for (const int s : receivers(value)) {
        for (const int device : stage(s).devices) {
          result_.devices[index_of(device)].in += receiving(value, s) / replicas(s);
        }
      }
    }
  }

  void add_memory() {
    for (int s = 0; s < stages(); ++s) {
      double bytes = 0;
      for (const int group : stage(s).groups) bytes += problem_.groups[index_of(group)].memory;
      for (const int device : stage(s).devices) result_.devices[index_of(device)].memory += bytes;
      if (type(s).unlimited) check_cap(bytes, type(s), concat("stage ", s));
    }
    if (problem_.frames_in_flight) add_frames();
    for (std::size_t d = 0; d < result_.devices.size(); ++d) {
      const auto& own = problem_.types[index_of(type_of_device_[d])];
      check_cap(result_.devices[d].memory, own, concat("device '", name_of_device_[d], "'"));
    }
  }

  void check_cap(double bytes, const DeviceType& type, const std::string& who) {
    constexpr double kRounding = 1e-9;  // Relative: sums in another order differ by less.
    if (bytes <= type.memory * (1 + kRounding)) return;
    broken(who, ": holds ", bytes, " bytes, more than its ", type.memory);
  }

  /// Values that go from stage to stage wait on the devices at both ends.
  void add_frames() {
    for (const auto& value : problem_.values) {
      const int from = writer(value);
      const auto read = readers(value);
      if (read.empty() || (read.size() == 1 && read.front() == from)) continue;
      const int last = std::max(from, read.back());
      std::set<int> holders(stage(from).devices.begin(), stage(from).devices.end());
      for (const int s : read) holders.insert(stage(s).devices.begin(), stage(s).devices.end());
      for (const int device : holders) {
        result_.devices[index_of(device)].memory += value.bytes * (last - from + 1);
      }
    }
  }

  void combine() {
    for (std::size_t d = 0; d < result_.devices.size(); ++d) {
      auto& own = result_.devices[d];
      switch (problem_.types[index_of(type_of_device_[d])].overlap) {
        case Overlap::kSerial:
          own.load = own.compute + own.in + own.out;
          break;
        case Overlap::kHalfDuplex:
          own.load = std::max(own.compute, own.in + own.out);
          break;
        case Overlap::kFullDuplex:
          own.load = std::max({own.compute, own.in, own.out});
          break;
      }
      result_.period = std::max(result_.period, own.load);
    }
  }

  // --- Latency ---------------------------------------------------------------------------------

  [[nodiscard]] double latency() const {
    std::vector<double> duration;
    for (int s = 0; s < stages(); ++s) duration.push_back(own_compute(s));
    std::vector<std::set<int>> sources(index_of(stages()));  // Earlier stages that each waits for.
    for (const auto& value : problem_.values) {
      duration[index_of(writer(value))] += sending(value);
      for (const int s : receivers(value)) duration[index_of(s)] += receiving(value, s);
      for (const int s : readers(value)) sources[index_of(s)].insert(writer(value));
    }
    for (const auto& [before, after] : problem_.order) {
      sources[index_of(stage_of_[index_of(after)])].insert(stage_of_[index_of(before)]);
    }
    std::vector<double> end(index_of(stages()), 0), free(type_of_device_.size(), 0);
    double last = 0;
    for (int s = 0; s < stages(); ++s) {
      double start = 0;
      for (const int source : sources[index_of(s)]) {
        if (source < s) start = std::max(start, end[index_of(source)]);
      }
      for (const int device : stage(s).devices) start = std::max(start, free[index_of(device)]);
      end[index_of(s)] = start + duration[index_of(s)];
      for (const int device : stage(s).devices) free[index_of(device)] = end[index_of(s)];
      last = std::max(last, end[index_of(s)]);
    }
    return last;
  }

  const Problem& problem_;
  const Split& split_;
  std::vector<int> type_of_device_;
  std::vector<std::string> name_of_device_;
  std::vector<int> stage_of_;  // Of each group.
  Evaluation result_;
};

}  // namespace

Evaluation evaluate(const Problem& problem, const Split& split) {
  return Judge(problem, split).run();
}

}  // namespace penstock::planner
