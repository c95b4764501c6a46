// Draws and undoes moves, and accepts worse ones by a temperature that falls geometrically.
#include "penstock/planner/latency/latency_anneal.h"

#include <cmath>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

constexpr double kHot = 1e-2, kCold = 1e-5;  // Temperatures as shares of the cost.

}  // namespace

LatencyAnneal::LatencyAnneal(const LatencyModel& model, LatencySimulator& simulator,
                             LatencyPlan best, double cost, std::uint64_t seed)
    : model_(model),
      simulator_(simulator),
      best_(std::move(best)),
      cost_(cost),
      random_(seed),
      cluster_of_(at(model.groups)),
      mark_(at(model.groups), 0) {
  for (int c = 0; c < model.clusters.size(); ++c) {
    for (const int g : model.clusters[c]) cluster_of_[at(g)] = c;
  }
}

bool LatencyAnneal::round(int moves, const Budget& budget) {
  plan_ = best_;
  double now = cost_;
  bool better = false;
  for (int i = 0; i < moves; ++i) {
    if (i % 16 == 0 && budget.over()) break;
    const double heat = cost_ * kHot * std::pow(kCold / kHot, static_cast<double>(i) / moves);
    propose();
    if (undo_.empty() && mode_undo_.first < 0) continue;
    const double cost = simulator_.run(plan_);
    const bool keep =
        cost <= now || (cost < kInfinite && random_.unit() < std::exp((now - cost) / heat));
    if (!keep) {
      take_back();
      continue;
    }
    now = cost;
    if (cost >= cost_ * (1 - 1e-12)) continue;
    cost_ = cost;
    best_ = plan_;
    better = true;
  }
  return better;
}

void LatencyAnneal::put(int cluster, int place) {
  int& own = plan_.place[at(cluster)];
  if (own == place) return;
  undo_.emplace_back(cluster, own);
  own = place;
}

void LatencyAnneal::take_back() {
  for (auto step = undo_.rbegin(); step != undo_.rend(); ++step) {
    plan_.place[at(step->first)] = step->second;
  }
  if (mode_undo_.first >= 0) plan_.mode[at(mode_undo_.first)] = mode_undo_.second;
}

/// A group next to it in the graph; -1 where it drew none.
int LatencyAnneal::neighbour(int group) {
  const auto list = random_.below(2) == 0 ? model_.earlier[group] : model_.later[group];
  return list.empty() ? -1 : list[at(random_.below(static_cast<int>(list.size())))];
}

void LatencyAnneal::propose() {
  undo_.clear();
  mode_undo_.first = -1;
  const int seats = simulator_.seats();
  if (seats > 0 && random_.below(16) == 0) {
    const int seat = random_.below(seats);
    const auto& modes = simulator_.modes(seat);
    if (modes.size() > 1) {
      mode_undo_ = {seat, plan_.mode[at(seat)]};
      plan_.mode[at(seat)] = modes[at(random_.below(static_cast<int>(modes.size())))];
      return;
    }
  }
  const int group = random_.below(model_.groups);
  const int next = random_.below(8) == 0 ? -1 : neighbour(group);
  const int to =
      next >= 0 ? plan_.place[at(cluster_of_[at(next)])] : random_.below(simulator_.places());
  const int kind = random_.below(3);
  if (plan_.place[at(cluster_of_[at(group)])] >= seats) {
    move_few(group, to);
  } else if (kind == 0) {
    put(cluster_of_[at(group)], to);
  } else {
    move_side(group, kind == 1 ? random_.below(simulator_.places()) : to);
  }
}

/// A group on cores, and up to five that a random walk meets there.
void LatencyAnneal::move_few(int group, int to) {
  put(cluster_of_[at(group)], to);
  for (int more = random_.below(6); more > 0; --more) {
    const int next = neighbour(group);
    if (next < 0) return;
    group = next;
    if (plan_.place[at(cluster_of_[at(group)])] >= simulator_.seats()) {
      put(cluster_of_[at(group)], to);
    }
  }
}

/// The group and all in its call that it needs, or that need it. What is left is convex still.
void LatencyAnneal::move_side(int group, int to) {
  const int from = plan_.place[at(cluster_of_[at(group)])];
  const auto& side = random_.below(2) == 0 ? model_.earlier : model_.later;
  std::vector<int> open{group};
  mark_[at(group)] = ++marked_;
  const auto reach = [&](int g) {
    if (mark_[at(g)] == marked_ || plan_.place[at(cluster_of_[at(g)])] != from) return;
    mark_[at(g)] = marked_;
    open.push_back(g);
  };
  for (std::size_t i = 0; i < open.size(); ++i) {
    for (const int g : model_.clusters[cluster_of_[at(open[i])]]) reach(g);
    for (const int g : side[open[i]]) reach(g);
  }
  for (const int g : open) put(cluster_of_[at(g)], to);
}

}  // namespace penstock::planner
