// ReadyTimes: the latency of a pipeline that grows stage by stage.
// A stage starts when all stages that it reads from, or must stand behind, have ended.
#pragma once

#include <span>
#include <vector>

#include "penstock/planner/bounds/ideals.h"
#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

class ReadyTimes {
 public:
  /// Borrows the instance.
  explicit ReadyTimes(const Instance& instance);

  /// Appends the groups of the ideal that something outside it waits for, ascending.
  void append_sources(std::span<const Word> ideal, std::vector<int>& sources) const;
  /// The places in `sources`, those of the ideal `before`, that the groups in `after` and not in
  /// `before` wait for.
  std::vector<int> awaited(std::span<const int> sources, std::span<const Word> before,
                           std::span<const Word> after) const;
  /// Least time from the end of a stage with this group, the last of the ideal, to the end of all.
  [[nodiscard]] double tail(std::span<const Word> ideal, int group) const;

 private:
  template <typename Test>
  bool any_reader(int group, Test test) const;

  const Instance* instance_;
  std::vector<double> chain_;  ///< [group] Least time of a path that starts with it.
  Lists produced_;             ///< [group] Its values.
};

}  // namespace penstock::planner
