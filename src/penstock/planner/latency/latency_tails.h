// LatencyTails: what must still pass after a group has ended.
#pragma once

#include <vector>

#include "penstock/planner/latency/latency_model.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// Lower bounds on the time from the end of one stage to the end of the frame.
///
/// Each follows one path of groups from a stage's border to the end, and prices every way to divide
/// it into calls and single groups on cores. A path meets a call in one run of its groups, because
/// stages lie in an order. A call that holds the run from u to v holds all between them too, and
/// what shares a device with those: all its time and memory, and every value that it must exchange
/// because its other end lies before the run's predecessor or after its successor, or, where the
/// other end might be inside, that or the other end's time. Runs follow each other in time: their
/// sum is a bound.
class LatencyTails {
 public:
  /// Falls back to shorter runs, which weakens it, when the budget is over.
  LatencyTails(const LatencyModel& model, const Budget& budget);

  /// After the pair number `edge` of LatencyModel::earlier where its first has ended and its second
  /// is in another stage. `code`: devices that have been used.
  [[nodiscard]] double tail(int edge, int code) const { return tail_[at(edge, code)]; }
  /// Time after the last group that is known to be in a call, while the second of the pair may
  /// be in that call or not: time beside that of the known groups. `code` counts the call.
  [[nodiscard]] double join(int edge, int code) const { return join_[at(edge, code)]; }
  /// Of the whole frame.
  [[nodiscard]] double bound() const { return bound_; }

 private:
  class Run;
  [[nodiscard]] std::size_t at(int edge, int code) const {
    return static_cast<std::size_t>(edge) * static_cast<std::size_t>(model_.codes) +
           static_cast<std::size_t>(code);
  }
  void choose_paths();
  void put_tail(int from, int to, Run& run, const Budget& budget, double* best) const;
  void put_join(int from, int to, int edge);
  [[nodiscard]] double after(int group, int code) const;

  const LatencyModel& model_;
  std::vector<int> next_, next_edge_;  // [group] On its path; -1 at the end.
  std::vector<double> least_;        // [group] Time of the longest way to the end, transfers free.
  std::vector<double> tail_, join_;  // [edge * codes + code]
  int longest_ = 1;                  // Of a run; a step more costs what its groups cost.
  double bound_ = 0;
};

}  // namespace penstock::planner
