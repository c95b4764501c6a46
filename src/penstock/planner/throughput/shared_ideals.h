// SharedIdeals: stages along all orders of the groups at once.
// They are compared by the part of a whole that they take.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "penstock/planner/bounds/model.h"
#include "penstock/planner/search/search.h"
#include "penstock/planner/throughput/cursor.h"
#include "penstock/planner/throughput/frontier.h"
#include "penstock/planner/throughput/shares.h"

namespace penstock::planner {

/// What a group takes of the whole at least, for a period: of a device's part, (1 - mix) pays for
/// its time and `mix` for its memory; r replicas, which pay r parts, have no more memory than one.
/// kInfinite: no mode supports it.
double least_part(const Instance& instance, const Shares& shares, int group, double period,
                  double mix);

/// For each ideal the least part that stages up to it take. Ideals by size; from each every stage
/// that may follow, in every mode, with as few replicas as it needs. Left out is what leaves too
/// little for the rest, which takes least_part() of its groups. Exact, for graphs of few ideals.
class SharedIdeals {
 public:
  /// Borrows both.
  SharedIdeals(const Model& model, const Shares& shares);

  /// Stages with loads below `period` that take no more than the whole, of the instance's groups,
  /// with one device index of -1 for each replica.
  FrontierResult run(double period, const Budget& budget);

 private:
  static constexpr std::size_t kMixes = 5;  // Ways to divide a part between time and memory.
  using Sums = std::array<double, kMixes>;

  struct State {
    double taken = kInfinite;
    Sums done{};  ///< What its groups take at least.
    std::uint64_t key = 0;
    int parent = -1, mode = 0, replicas = 0;  ///< Of the last stage.
  };
  /// One level of the walk over stages: groups that may be added next, in open_.
  struct Level {
    std::size_t next = 0, end = 0;
  };

  void start(double period);
  void expand(int ideal, const Budget& budget);
  void walk(const Budget& budget);
  bool add(int group);
  void drop();
  void descend(int group);
  void emit();
  void trace(FrontierResult& result);
  [[nodiscard]] bool enough(double taken, std::size_t mix) const;

  const Shares* shares_;
  Model model_;  // Without prices, which are not asked.
  double room_ = 0;
  double period_ = 0;
  std::vector<Sums> least_;  // [group]
  Sums total_{};
  Cursor cursor_;
  IdealStore store_;
  std::vector<State> states_;              // [ideal]
  std::vector<std::vector<int>> by_size_;  // Ideals still to expand.
  std::vector<Word> words_;
  int ideal_ = 0, mode_ = 0, most_replicas_ = 1, goal_ = -1;
  double part_ = 0;  // Of a device of the mode's type.
  Sums done_{};      // Of the ideal and the stage.
  double compute_ = 0;
  std::vector<int> open_;
  std::vector<Level> levels_;
  std::int64_t steps_ = 0;
  bool stopped_ = false;
};

}  // namespace penstock::planner
