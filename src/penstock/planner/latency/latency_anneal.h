// LatencyAnneal: improves a latency plan by random moves.
#pragma once

#include <cstdint>

#include "penstock/planner/latency/latency_simulator.h"
#include "penstock/planner/search/random.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// Simulated annealing in rounds, each from the best plan so far. Moves: a cluster, or one with all
/// before or behind it in its call, to a neighbour's place or to any; a few neighbours from cores
/// to a seat; another mode for a seat. Every plan it stands on is valid. Source: Kirkpatrick,
/// Gelatt and Vecchi, Science 1983.
class LatencyAnneal {
 public:
  /// `best` is valid and costs `cost`.
  LatencyAnneal(const LatencyModel& model, LatencySimulator& simulator, LatencyPlan best,
                double cost, std::uint64_t seed);

  /// Tries so many moves, or until the budget is over; whether the best became better.
  bool round(int moves, const Budget& budget);
  [[nodiscard]] const LatencyPlan& best() const { return best_; }
  [[nodiscard]] double cost() const { return cost_; }

 private:
  void propose();
  void put(int cluster, int place);
  void take_back();
  int neighbour(int group);
  void move_few(int group, int to);
  void move_side(int group, int to);

  const LatencyModel& model_;
  LatencySimulator& simulator_;
  LatencyPlan best_, plan_;
  double cost_;
  Random random_;
  std::vector<int> cluster_of_;            // [group]
  std::vector<std::pair<int, int>> undo_;  // Cluster, place before.
  std::pair<int, int> mode_undo_{-1, 0};   // Seat, mode before.
  std::vector<int> mark_;                  // [group]
  int marked_ = 0;
};

}  // namespace penstock::planner
