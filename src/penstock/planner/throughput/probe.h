// Probe: the best stages along one line, for devices of any types. Exact for the line.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "penstock/planner/search/search.h"
#include "penstock/planner/throughput/line.h"

namespace penstock::planner {

/// Asks, for a period T, whether the line can be cut into stages with loads below T. For each
/// multiset of devices used it keeps the places that the stages so far can end at, without those
/// that another covers. Multisets, not sets: devices of a type are alike.
class Probe {
 public:
  /// Borrows the line.
  explicit Probe(const Line& line);

  /// How many multisets there are; not more than `kMostMultisets` make run() `possible`.
  [[nodiscard]] std::int64_t multisets() const { return multisets_; }
  [[nodiscard]] bool possible() const { return multisets_ <= kMostMultisets; }

  /// Stages with loads below `period` on every device; empty: there are none, or the budget ended.
  std::vector<Interval> run(double period, const Budget& budget);
  /// Stages with the devices in one order, given by their types; they may be skipped. Not all
  /// splits, but quick however many devices there are.
  std::vector<Interval> run(double period, std::span<const int> sequence, const Budget& budget);

 private:
  static constexpr std::int64_t kMostMultisets = 1 << 17;

  struct Point {
    int place = 0;
    int parent = -1;  ///< Into points_.
    Interval stage;   ///< The last one; `duration` of all up to it.
  };

  void start(double period);
  /// Whether the search must end; looks at the clock once for many stages that were tried.
  bool over(const Budget& budget);
  void put(const Point& point);
  [[nodiscard]] bool covered(const Point& point) const;
  void cover(int from, double duration);
  void load_counts(std::int64_t multiset);
  void offer_capacity();
  bool completes(const Point& point) const;
  std::span<const Interval> reach(int begin, int mode, int replicas);
  void extend(int from, int mode, int replicas);
  void extend_all(std::int64_t label, int mode, int replicas, const Budget& budget);
  bool close_label();
  [[nodiscard]] std::vector<Interval> trace(int point) const;

  const Line* line_;
  bool capped_;  ///< Whether latency counts.
  double period_ = 0;
  std::int64_t multisets_ = 1;
  std::vector<std::int64_t> stride_;  ///< [type]
  std::vector<int> used_, left_;      ///< [type] In the multiset at hand.
  std::vector<double> capacity_;      ///< [price system] What the devices left can take.
  std::int64_t steps_ = 0;            ///< Since the last look at the clock.
  bool over_ = false;
  std::vector<Point> points_, fresh_;
  std::vector<int> fresh_at_;  ///< [place] Into fresh_, the least duration; -1: none.
  /// [place] A Fenwick tree: the least duration of the points kept that cover a place, by where
  /// they cover from.
  std::vector<double> least_;
  std::vector<int> first_point_;  ///< [multiset] Into points_.
  std::vector<std::pair<int, int>>
      reached_;  ///< [replicas][mode][place] Range in stages_; -1: not asked.
  std::vector<Interval> stages_;
};

/// The line's best stages with loads below `upper`, given that none beat `lower`; empty: there are
/// none, or the budget ended first. `proved` tells whether they are the best.
struct LineResult {
  std::vector<Interval> stages;
  double period = kInfinite;
  bool proved = false;
};
LineResult best_on_line(const Line& line, double lower, double upper, const Budget& budget);
/// The best stages with the devices in this order only; never `proved`.
LineResult best_on_line(const Line& line, std::span<const int> sequence, double lower, double upper,
                        const Budget& budget);

/// The stages as a split of the instance: devices handed out by type in the order of the stages.
Split split_of(const Line& line, std::span<const Interval> stages);

}  // namespace penstock::planner
