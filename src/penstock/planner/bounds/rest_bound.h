// RestBound: how much must be done before some devices can do the rest, as stages one by one.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "penstock/planner/bounds/closure.h"
#include "penstock/planner/bounds/model.h"
#include "penstock/planner/bounds/stage_bound.h"

namespace penstock::planner {

/// Measures an ideal by its work w in the first price system. From the work x before a stage and
/// the work y behind it follows what the stage must hold: the groups that no ideal of work x has
/// and every ideal of work y has. The rest of y - x comes at best from those groups between that
/// its mode does with the least time for their work. That bounds y - x for a period, and so the
/// work done by all devices together, far better than prices do where a stage cannot pick what it
/// likes. Only times of groups count, for any overlap, until `use_transfers`; not for replicas.
class RestBound {
 public:
  /// Borrows the model.
  RestBound(const Model& model, const Closure& closure);

  /// Whether it is worth its time: multisets of devices that are few, and types that differ or
  /// transfers that are used.
  [[nodiscard]] bool possible() const { return possible_ && worth_; }
  /// For stages with loads below `period`.
  void set_period(double period, const Budget& budget);
  /// From now on a StageBound sharpens it: better by far where transfers are dear, and slower.
  void use_transfers();
  /// The least work of an ideal behind which the devices left (counts by type) can do the rest.
  [[nodiscard]] double least_done(std::span<const int> left) const;
  /// Whether all devices together cannot do all.
  [[nodiscard]] bool refutes() const { return least_done(model_->instance.type_count) > slack_; }

 private:
  struct Item {
    double first = 0;  ///< The least work of an ideal that has the group,
    double last = 0;   ///< the largest of one that has not.
    double work = 0, time = 0;
  };
  /// A mode's groups; those that it does not support have infinite times.
  struct ModeItems {
    std::vector<Item> by_value;  ///< Work for time descending; only with work and finite time.
    std::vector<Item> by_first;  ///< `first` descending; all.
    double best_value = 0;       ///< Work for time.
  };

  void put_items(const Closure& closure);
  [[nodiscard]] double least_begin(int mode, double room, double end, double enough);
  [[nodiscard]] double begin_in_cell(const ModeItems& items, double room, double floor, double end,
                                     double width) const;
  [[nodiscard]] static double forced_floor(const ModeItems& items, double room, double end,
                                           double slack);

  const Model* model_;
  const Closure* closure_;
  std::optional<StageBound> stages_;
  bool possible_ = false, worth_ = false;
  double total_ = 0, slack_ = 0;
  WorkCells cells_;
  std::vector<ModeItems> modes_;
  std::vector<std::size_t> stride_;  ///< [type]
  std::vector<double> least_;        ///< [multiset of devices left]
};

}  // namespace penstock::planner
