// LatencyModel: a problem made ready for the latency search, in flat arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "penstock/planner/problem/instance.h"
#include "penstock/planner/problem/problem.h"

namespace penstock::planner {

/// Devices that the search counts together: those of one type, or of all capped types where there
/// are too many kinds of devices to tell apart (then a bound holds, and is weaker).
struct Pool {
  int count = 0;
  int stride = 1;  ///< What one device of it adds to a code.
};

/// Costs are the least that any partner could ask, so a bound holds for the problem; the plans
/// found are measured by LatencySimulator.
///
/// Groups are gathered in blocks: what one step of the search places. Two groups that must share a
/// device share a block where that loses no plan; else the search keeps them together by `set`.
/// Loses no plan: everything runs on capped devices, one call each; or every group of the set that
/// reads from outside leads to every one that is read outside. (A circle through the set's groups
/// and the other stages could then be lengthened to a circle without it, which no plan has.)
struct LatencyModel {
  explicit LatencyModel(const Problem& problem);

  int groups = 0, blocks = 0, types = 0, values = 0;
  Lists members;              ///< [block] Groups, in topological order. Blocks are in one as well.
  std::vector<int> block_of;  ///< [group]
  Lists before, after;        ///< [block] Direct order.
  std::vector<int> set_of;    ///< [block] -1, or its set of blocks that share a device.
  Lists set_blocks;           ///< [set] Its blocks, two or more.
  Lists clusters;             ///< Groups that must share a device, and each other one alone.

  Lists earlier, later;         ///< [group] Direct order.
  std::vector<int> later_edge;  ///< For each item of `later` the place of the pair in `earlier`.
  Lists follows;                ///< [group] `later` and those that read its values.
  Lists reads, writes;          ///< [group] Values.
  std::vector<int> producer;    ///< [value]
  Lists consumers;              ///< [value]
  std::vector<double> receive, send;  ///< [value * types + type]
  std::vector<int> topological;       ///< Groups.

  /// An unlimited type, "core": each group alone, as many at once as wanted, no transfers.
  std::vector<double> core_time;  ///< [group] With launch; kInfinite where no core supports it.

  /// Modes of capped types. Each stage on one is a call.
  struct CallMode {
    int mode = 0, type = 0, pool = 0;
    int devices = 0;  ///< Of the type.
    double launch = 0, memory = 0;
    std::vector<double> time;  ///< [group]
  };
  std::vector<CallMode> calls;
  std::vector<Pool> pools;
  int codes = 1;               ///< Numbers of devices used, of all pools: 0 .. codes - 1.
  std::vector<double> memory;  ///< [group]

  /// The least that the group takes, on a core or in a call.
  [[nodiscard]] double least_time(int group) const {
    const auto g = static_cast<std::size_t>(group);
    double least = core_time[g];
    for (const auto& call : calls) least = std::min(least, call.time[g]);
    return least;
  }
  [[nodiscard]] bool has_left(int code, int pool) const {
    const auto& own = pools[static_cast<std::size_t>(pool)];
    return code / own.stride % (own.count + 1) < own.count;
  }
  /// Whether `other` uses at least as many devices of each pool.
  [[nodiscard]] bool uses_no_more(int code, int other) const;
};

/// Sets of groups as bits.
class BitRows {
 public:
  BitRows(int rows, int columns)
      : words_((static_cast<std::size_t>(columns) + 63) / 64),
        bits_(static_cast<std::size_t>(rows) * words_) {}
  [[nodiscard]] std::size_t words() const { return words_; }
  [[nodiscard]] std::uint64_t* row(int i) { return &bits_[static_cast<std::size_t>(i) * words_]; }
  [[nodiscard]] const std::uint64_t* row(int i) const {
    return &bits_[static_cast<std::size_t>(i) * words_];
  }
  [[nodiscard]] bool has(int i, int j) const {
    return ((row(i)[static_cast<std::size_t>(j) / 64] >> (static_cast<unsigned>(j) % 64)) & 1U) !=
           0;
  }
  void add(int i, int j) {
    row(i)[static_cast<std::size_t>(j) / 64] |= std::uint64_t{1} << (static_cast<unsigned>(j) % 64);
  }
  void add_row(int i, const BitRows& other, int j) {
    for (std::size_t w = 0; w < words_; ++w) row(i)[w] |= other.row(j)[w];
  }

 private:
  std::size_t words_;
  std::vector<std::uint64_t> bits_;
};

/// For each group all groups that lead to it, itself among them; or that it leads to.
BitRows ancestors(const LatencyModel& model);
BitRows descendants(const LatencyModel& model);

}  // namespace penstock::planner
