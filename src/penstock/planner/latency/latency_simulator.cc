// Seats groups, sorts stages topologically, adds up durations and waiting, and checks memory.
#include "penstock/planner/latency/latency_simulator.h"

#include <algorithm>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

constexpr double kMemoryRounding = 1e-9;  // Of memory, as evaluate() allows.

}  // namespace

LatencySimulator::LatencySimulator(const Problem& problem, const LatencyModel& model,
                                   int segments_per_device)
    : problem_(problem),
      model_(model),
      modes_(problem.types.size()),
      segments_(segments_per_device) {
  for (int m = 0; m < static_cast<int>(problem.modes.size()); ++m) {
    modes_[at(problem.modes[at(m)].type)].push_back(m);
  }
  for (int t = 0; t < model.types; ++t) {
    const auto& type = problem.types[at(t)];
    for (std::size_t d = 0; d < type.devices.size(); ++d, ++devices_) {
      for (int s = 0; s < segments_; ++s) {
        device_of_.push_back(devices_);
        type_of_.push_back(t);
      }
    }
    if (!type.unlimited) continue;
    core_types_.push_back(t);
    for (const auto& group : problem.groups) {
      int best = -1;
      const auto time = [&](int m) { return problem.modes[at(m)].launch + group.time[at(m)]; };
      for (const int m : modes_[at(t)]) {
        if (group.time[at(m)] == kInfinite || group.memory > type.memory) continue;
        if (best < 0 || time(m) < time(best)) best = m;
      }
      core_mode_.push_back(best);
    }
  }
  cluster_of_.resize(at(model.groups));
  for (int c = 0; c < model.clusters.size(); ++c) {
    for (const int g : model.clusters[c]) cluster_of_[at(g)] = c;
  }
  for (const auto& value : problem.values) {
    for (int from = 0; from < model.types; ++from) {
      for (int to = 0; to < model.types; ++to) {
        transfer_.push_back(transfer_time(problem, value, from, to));
      }
    }
  }
  const auto units = at(seats() + model.groups);
  unit_of_.resize(at(model.groups));
  alone_mode_.resize(at(model.groups));
  next_.resize(at(model.groups));
  first_.resize(units);
  missing_.resize(units);
  end_.resize(units);
  free_.resize(at(devices_));
  held_.resize(at(devices_));
  seen_.assign(at(model.values) * (segments_ > 1 ? at(devices_) : 1), 0);
}

const std::vector<int>& LatencySimulator::modes(int seat) const {
  return modes_[at(type_of_[at(seat)])];
}

int LatencySimulator::device(int unit) const {
  return unit < seats() ? device_of_[at(unit)] : -1;
}
int LatencySimulator::mode(int unit) const {
  return unit < seats() ? seat_mode_[at(unit)] : alone_mode_[at(unit - seats())];
}
int LatencySimulator::type(int unit) const {
  return unit < seats() ? type_of_[at(unit)] : problem_.modes[at(mode(unit))].type;
}
bool LatencySimulator::together(int unit, int other) const {
  return unit == other || (device(unit) >= 0 && device(unit) == device(other));
}

/// False where a group does not run where it is, or a device is too small.
bool LatencySimulator::seat_groups(const LatencyPlan& plan) {
  seat_mode_ = plan.mode;
  std::ranges::fill(first_, -1);
  std::ranges::fill(held_, 0);
  for (int g = model_.groups - 1; g >= 0; --g) {
    const int place = plan.place[at(cluster_of_[at(g)])];
    int unit = place;
    if (place < seats()) {
      held_[at(device(unit))] += model_.memory[at(g)];
      if (problem_.groups[at(g)].time[at(mode(unit))] == kInfinite) return false;
    } else {
      unit = seats() + g;
      alone_mode_[at(g)] = core_mode_[at(place - seats(), model_.groups, g)];
      if (alone_mode_[at(g)] < 0) return false;
    }
    unit_of_[at(g)] = unit;
    next_[at(g)] = first_[at(unit)];
    first_[at(unit)] = g;
  }
  for (int s = 0; s < seats(); ++s) {
    const double cap = problem_.types[at(type_of_[at(s)])].memory;
    if (held_[at(device_of_[at(s)])] > cap * (1 + kMemoryRounding)) return false;
  }
  return true;
}

/// False where units need each other in a circle.
bool LatencySimulator::order_units() {
  std::ranges::fill(missing_, 0);
  for (int g = 0; g < model_.groups; ++g) {
    for (const int other : model_.earlier[g]) {
      if (unit_of_[at(other)] != unit_of_[at(g)]) ++missing_[at(unit_of_[at(g)])];
    }
  }
  order_.clear();
  std::size_t units = 0;
  for (std::size_t u = 0; u < first_.size(); ++u) {
    if (first_[u] < 0) continue;
    ++units;
    if (missing_[u] == 0) order_.push_back(static_cast<int>(u));
  }
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const int unit = order_[i];
    for (int g = first_[at(unit)]; g >= 0; g = next_[at(g)]) {
      for (const int other : model_.later[g]) {
        const int after = unit_of_[at(other)];
        if (after != unit && --missing_[at(after)] == 0) order_.push_back(after);
      }
    }
  }
  return order_.size() == units;
}

double LatencySimulator::duration(int unit) {
  const int own_type = type(unit), own_mode = mode(unit);
  const bool pays = problem_.types[at(own_type)].pays_transfers;
  double sum = problem_.modes[at(own_mode)].launch;
  if (segments_ == 1) ++mark_;  // Else one mark for the whole run: a device receives once.
  for (int g = first_[at(unit)]; g >= 0; g = next_[at(g)]) {
    sum += problem_.groups[at(g)].time[at(own_mode)];
    if (!pays) continue;
    for (const int v : model_.reads[g]) {
      const int writer = unit_of_[at(model_.producer[at(v)])];
      if (together(unit, writer)) continue;
      if (device(unit) >= 0) {
        const auto slot = segments_ == 1 ? at(v) : at(v, devices_, device(unit));
        if (std::exchange(seen_[slot], mark_) == mark_) continue;
      }
      sum += transfer_[at(v * model_.types + type(writer), model_.types, own_type)];
    }
    for (const int v : model_.writes[g]) {
      double most = 0;
      for (const int reader : model_.consumers[v]) {
        const int other = unit_of_[at(reader)];
        if (together(unit, other)) continue;
        most =
            std::max(most, transfer_[at(v * model_.types + own_type, model_.types, type(other))]);
      }
      sum += most;
    }
  }
  return sum;
}

double LatencySimulator::run(const LatencyPlan& plan) {
  if (!seat_groups(plan) || !order_units()) return kInfinite;
  std::ranges::fill(end_, 0);
  std::ranges::fill(free_, 0);
  if (segments_ > 1) ++mark_;
  double last = 0;
  for (const int unit : order_) {
    double start = device(unit) >= 0 ? free_[at(device(unit))] : 0;
    for (int g = first_[at(unit)]; g >= 0; g = next_[at(g)]) {
      const auto wait = [&](int other) { start = std::max(start, end_[at(unit_of_[at(other)])]); };
      for (const int other : model_.earlier[g]) wait(other);
      for (const int v : model_.reads[g]) wait(model_.producer[at(v)]);  // 0 where it comes later.
    }
    const double end = start + duration(unit);
    end_[at(unit)] = end;
    if (device(unit) >= 0) free_[at(device(unit))] = end;
    last = std::max(last, end);
  }
  return problem_.frames_in_flight && !fits_with_frames() ? kInfinite : last;
}

/// Values that cross wait at both ends, as many as there are stages from end to end.
bool LatencySimulator::fits_with_frames() {
  std::vector<int> stage(first_.size(), -1);
  for (std::size_t i = 0; i < order_.size(); ++i) stage[at(order_[i])] = static_cast<int>(i);
  for (int v = 0; v < model_.values; ++v) {
    const int from = unit_of_[at(model_.producer[at(v)])];
    int last = stage[at(from)];
    std::vector<int> holders;
    bool crosses = false;
    for (const int reader : model_.consumers[v]) {
      const int unit = unit_of_[at(reader)];
      crosses = crosses || unit != from;
      last = std::max(last, stage[at(unit)]);
      if (device(unit) >= 0) holders.push_back(device(unit));
    }
    if (!crosses) continue;
    if (device(from) >= 0) holders.push_back(device(from));
    std::ranges::sort(holders);
    holders.erase(std::unique(holders.begin(), holders.end()), holders.end());
    const double bytes = problem_.values[at(v)].bytes * (last - stage[at(from)] + 1);
    for (const int d : holders) held_[at(d)] += bytes;
  }
  for (int s = 0; s < seats(); ++s) {
    const double cap = problem_.types[at(type_of_[at(s)])].memory;
    if (held_[at(device_of_[at(s)])] > cap * (1 + kMemoryRounding)) return false;
  }
  return true;
}

Split LatencySimulator::split() const {
  Split split;
  for (const int unit : order_) {
    Stage stage;
    for (int g = first_[at(unit)]; g >= 0; g = next_[at(g)]) stage.groups.push_back(g);
    stage.mode = mode(unit);
    if (device(unit) >= 0) stage.devices = {device(unit)};
    split.stages.push_back(std::move(stage));
  }
  return split;
}

std::optional<LatencyPlan> LatencySimulator::plan_of(const std::vector<LatencyStep>& steps) const {
  LatencyPlan plan{std::vector<int>(at(model_.clusters.size()), 0), {}};
  for (int s = 0; s < seats(); ++s) plan.mode.push_back(modes(s).empty() ? 0 : modes(s).front());
  std::vector<char> used(at(seats()), 0);
  for (const auto& step : steps) {
    int seat = 0;
    if (step.call >= 0) {
      const auto& call = model_.calls[at(step.call)];
      while (seat < seats() && (used[at(seat)] != 0 || type_of_[at(seat)] != call.type)) {
        seat += segments_;  // One call on each device.
      }
      if (seat >= seats()) return std::nullopt;
      used[at(seat)] = 1;
      plan.mode[at(seat)] = call.mode;
    }
    for (const int block : step.blocks) {
      for (const int g : model_.members[block]) {
        int place = seat;
        if (step.call < 0) {
          double best = kInfinite;
          for (std::size_t t = 0; t < core_types_.size(); ++t) {
            const int m = core_mode_[t * at(model_.groups) + at(g)];
            if (m < 0) continue;
            const double time = problem_.modes[at(m)].launch + problem_.groups[at(g)].time[at(m)];
            if (time < best) best = time, place = seats() + static_cast<int>(t);
          }
        }
        plan.place[at(cluster_of_[at(g)])] = place;
      }
    }
  }
  return plan;
}

std::optional<LatencyPlan> LatencySimulator::plan_of(const Split& split) const {
  LatencyPlan plan{std::vector<int>(at(model_.clusters.size()), 0), {}};
  for (int s = 0; s < seats(); ++s) plan.mode.push_back(modes(s).empty() ? 0 : modes(s).front());
  std::vector<int> taken(at(devices_), 0);
  for (const auto& stage : split.stages) {
    int place = -1;
    const auto type = problem_.modes[at(stage.mode)].type;
    if (stage.devices.empty()) {
      const auto found = std::ranges::find(core_types_, type);
      place = seats() + static_cast<int>(found - core_types_.begin());
    } else if (stage.devices.size() == 1 && taken[at(stage.devices[0])] < segments_) {
      place = stage.devices[0] * segments_ + taken[at(stage.devices[0])]++;
      plan.mode[at(place)] = stage.mode;
    }
    if (place < 0) return std::nullopt;
    for (const int g : stage.groups) plan.place[at(cluster_of_[at(g)])] = place;
  }
  return plan;
}

}  // namespace penstock::planner
