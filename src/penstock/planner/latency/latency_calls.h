// LatencyCalls: every call that may follow an ideal and be of use.
#pragma once

#include <functional>
#include <vector>

#include "penstock/planner/latency/latency_front.h"

namespace penstock::planner {

/// Grows calls block by block in topological order, so that each is met once, for all labels of the
/// front's ideal at once. Leaves a branch when no label could end in time with what the call has
/// and what the excluded blocks need.
class LatencyCalls {
 public:
  /// Borrows all. `put` takes the labels that are found; `stopped` is asked often.
  LatencyCalls(LatencyFront& front, LatencyIdeals& ideals, const LatencyTails& tails,
               std::function<void(LatencyLabel)> put, std::function<bool()> stopped);

  /// Tries all calls in LatencyModel::calls[mode] that begin with one of `next`, the available.
  void run(int mode, const std::vector<int>& next);

 private:
  struct Growing {
    double memory = 0, compute = 0;
    double in = 0;               // Of values written before.
    double back_in = 0;          // Of values written later: growing may save it.
    double out = 0;              // Growing may save it, but for
    double sure_out = 0;         // the part that excluded blocks read.
    std::vector<double> start;   // [caller] When it may begin; kInfinite: of no use.
    std::vector<double> onward;  // [caller] What must follow its end, for excluded blocks.
  };

  [[nodiscard]] int code_after(std::size_t caller) const;
  /// Tries each of `next`, without those before it, as the call's next block.
  void grow(Growing call, const std::vector<int>& next);
  /// False where no call that contains all this is of use.
  bool add(int block, Growing& call);
  void remove(int block);
  /// How many sets more are in the call in part when it has `more` blocks of this one.
  int change_set(int set, int more);
  [[nodiscard]] double sending(int value) const;
  [[nodiscard]] double receiving(int value) const;
  [[nodiscard]] int readers(int value) const;
  void wait_for(int group, Growing& call) const;
  void read(int value, int block, Growing& call);
  void write(int value, Growing& call) const;
  /// Drops the callers that end too late whether what follows the block joins the call or not.
  [[nodiscard]] bool of_use_with(int block, Growing& call) const;
  /// Drops the callers that end too late now; false where none is left.
  [[nodiscard]] bool of_use(Growing& call) const;
  /// The block will be in a later stage. False where no call of use is left.
  bool exclude(int block, Growing& call);
  void follow_later(int group, int edge, Growing& call) const;
  void emit(const Growing& call);

  LatencyFront& front_;
  LatencyIdeals& ideals_;
  const LatencyModel& model_;
  const LatencyTails& tails_;
  std::function<void(LatencyLabel)> put_;
  std::function<bool()> stopped_;
  bool over_ = false;
  unsigned steps_ = 0;
  int mode_ = 0, stride_ = 0;
  const LatencyModel::CallMode* call_ = nullptr;
  std::vector<int> callers_;  // Labels with a device left.
  std::vector<int> inside_;   // [value] Readers in the call.
  std::vector<char> lost_;    // [value] Written in the call, read by an excluded block.
  std::vector<int> lost_values_;
  std::vector<int> in_set_;  // [set] Blocks in the call.
  int open_sets_ = 0;        // Sets that are in the call in part.
};

}  // namespace penstock::planner
