// Line: a model along one linear order. A stage is an interval [begin, end) of places.
#pragma once

#include <vector>

#include "penstock/planner/bounds/model.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/throughput/linear_order.h"

namespace penstock::planner {

/// A stage on a line.
struct Interval {
  int begin = 0, end = 0;  ///< Places.
  int mode = 0;
  int replicas = 1;
  double load = 0;      ///< Per frame of one device: divided by the replicas.
  double duration = 0;  ///< Of one frame: compute + in + out.
};

class Line {
 public:
  /// Borrows the model.
  Line(const Model& model, LinearOrder order);

  [[nodiscard]] const Model& model() const { return *model_; }
  [[nodiscard]] int size() const { return static_cast<int>(order_.size()); }
  [[nodiscard]] const LinearOrder& order() const { return order_; }

  /// Starting the next stage at `place` is never worse than starting it at a place in
  /// [covered_from(place), place). Holds with and without latency.
  [[nodiscard]] int covered_from(int place) const { return covered_from_[at(place)]; }

  /// What the groups from `place` on cost at least at the model's price system `number`.
  [[nodiscard]] double rest(int number, int place) const { return rest_[at(number)][at(place)]; }
  /// Whether one of them is supported by no type that has a price there.
  [[nodiscard]] bool rest_lacks(int number, int place) const {
    return lacking_until_[at(number)] > place;
  }

  /// Appends to `stages` the stages that start at `begin` in `mode` with a load below `load` on
  /// each of `replicas` devices, ends descending; leaves out ends that a longer one covers unless
  /// `all`.
  void reach(int begin, int mode, int replicas, double load, bool all,
             std::vector<Interval>& stages) const;

 private:
  struct Pin {
    int value = 0;
    int previous = -1;  ///< Place of the value's pin before this one; -1: none.
    int first = 0;      ///< Place of its first pin,
    int producer = 0;   ///< and of its producer.
    bool last = false;  ///< Whether no pin comes after.
  };

  void find_pins();
  static double cut_change(const Pin& pin, int place, const Prices& prices);
  void sum_prices();
  void find_covered();
  void move(const Pin& pin, int begin, int place, int type, Transfers& transfers) const;
  [[nodiscard]] int farthest(int begin, int mode, double compute) const;
  [[nodiscard]] double compute(int begin, int end, int mode) const;

  const Model* model_;
  LinearOrder order_;
  bool adjacent_ =
      true;  ///< Every value joins two neighbours: transfers are those of the two ends.
  std::vector<std::vector<double>> sums_;  ///< [mode][place] Time before it, unsupported as 0.
  std::vector<std::vector<int>>
      unsupported_;             ///< [mode][place] First unsupported place from it on.
  std::vector<double> memory_;  ///< [place] Bytes before it.
  std::vector<Pin> pins_;
  std::vector<int> pins_begin_;                        ///< [place] Into pins_.
  std::vector<std::vector<double>> cut_in_, cut_out_;  ///< [type][place] If adjacent_.
  std::vector<std::vector<double>> rest_;              ///< [price system][place]
  std::vector<int> lacking_until_;                     ///< [price system]
  std::vector<int> covered_from_;
  mutable std::vector<Interval> scan_;
};

}  // namespace penstock::planner
