// Instance: a problem made ready for searching.
// Colocated groups and circles are merged, equal and one-pinned values are gone, groups are
// numbered in a topological order, and everything is in flat arrays.
#pragma once

#include <span>
#include <utility>
#include <vector>

#include "penstock/planner/problem/problem.h"
#include "penstock/planner/problem/split.h"

namespace penstock::planner {

/// Lists of ints one behind the other: list i is items[begin[i] .. begin[i+1]).
struct Lists {
  std::vector<int> begin{0};
  std::vector<int> items;
  [[nodiscard]] std::span<const int> operator[](int i) const {
    const auto at = static_cast<size_t>(i);
    return {items.data() + begin[at], static_cast<size_t>(begin[at + 1] - begin[at])};
  }
  [[nodiscard]] int size() const { return static_cast<int>(begin.size()) - 1; }
  void add(std::span<const int> list) {
    items.insert(items.end(), list.begin(), list.end());
    begin.push_back(static_cast<int>(items.size()));
  }
};

/// The second of each pair, listed by the first, 0 .. count-1; ascending.
Lists lists_of(int count, const std::vector<std::pair<int, int>>& pairs);

/// How costs that depend on the partner's type are taken: the searches know one cost per (value,
/// type). With `kLowest` a bound that is proved holds for the problem; with `kHighest` a split
/// costs at most what the search thinks. Both are the same where all of a type's links are alike.
enum class Partner { kLowest, kHighest };

struct Instance {
  int groups = 0, modes = 0, types = 0, values = 0;
  std::vector<double> time;         ///< [group * modes + mode]
  std::vector<double> memory;       ///< [group]
  std::vector<int> mode_type;       ///< [mode]
  std::vector<double> mode_launch;  ///< [mode]
  std::vector<int> type_count;      ///< [type] Devices of it.
  std::vector<double> type_memory;  ///< [type]
  std::vector<Overlap> type_overlap;
  std::vector<int> producer;    ///< [value]
  std::vector<double> receive;  ///< [value * types + type] 0 where the type pays nothing.
  std::vector<double> send;     ///< [value * types + type]
  std::vector<double> bytes;    ///< [value] Of all the problem's values in it.
  Lists pins;                   ///< [value] Its groups, ascending, the producer among them; >= 2.
  Lists values_of;              ///< [group] The values it is a pin of.
  Lists before, after;          ///< [group] Direct order, without repetition.
  Lists members;                ///< [group] The problem's groups in it.

  [[nodiscard]] double time_of(int group, int mode) const {
    return time[static_cast<size_t>(group) * static_cast<size_t>(modes) +
                static_cast<size_t>(mode)];
  }
};

/// Of a group, in the mode that is fastest for it; infinite where it supports none.
double least_time(const Instance& instance, int group);

/// \error kInvalidArgument as validate() says; also colocated groups that no one mode supports.
Result<Instance> make_instance(const Problem& problem, Partner partner);

/// A device that cannot hold a group does not support it either: this sharpens every bound.
void drop_small_devices(Instance& instance);

/// The instance's stages as the problem's: each group replaced by its members.
Split expand(const Instance& instance, const Split& split);

}  // namespace penstock::planner
