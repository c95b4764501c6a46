// StageBound: how much work a stage can hold with its transfers, wherever it stands.
#pragma once

#include <unordered_map>
#include <vector>

#include "penstock/planner/bounds/closure.h"
#include "penstock/planner/bounds/min_cut.h"
#include "penstock/planner/bounds/model.h"
#include "penstock/planner/search/search.h"

namespace penstock::planner {

/// All work in parts, within which stages are judged alike.
struct WorkCells {
  static constexpr int kCells = 100;
  static constexpr double kMargin = 1e-5;  ///< Of a cell: more than rounding makes.

  WorkCells() = default;
  explicit WorkCells(double total) : width(total / kCells) {}

  [[nodiscard]] int of(double work) const { return static_cast<int>(work / width + kMargin / 2); }
  [[nodiscard]] double begin(int cell) const { return cell * width; }
  [[nodiscard]] double low(int cell) const {
    return (cell - kMargin) * width;
  }  ///< Of what of() gives.
  [[nodiscard]] double end_of(double work) const { return begin(of(work) + 1); }

  double width = 1;
};

/// As in RestBound, work is the first price system's, and a stage stands between an ideal of work x
/// and one of work y. The stage then is a set of groups that holds those which no ideal of work x
/// and every one of work y has, and none of those that the first has or the second lacks. Among
/// such sets, whether ideals or not, it is a minimum cut to find the largest
///   work - price * load
/// for any price of load: that bounds the work of stages below any load (Lagrange).
class StageBound {
 public:
  /// Borrows both.
  StageBound(const Model& model, const Closure& closure);

  /// Stages have loads below `period`; once the budget is over, nothing new is found out.
  void set_period(double period, const Budget& budget);
  /// The least work before a stage in `mode` that ends at the work `end`, or behind it in the same
  /// cell, if it is at least `begin`; stops early at `enough`.
  [[nodiscard]] double least_begin(int mode, double begin, double end, double enough);

 private:
  /// Stages that begin in cell `begin` (or from there on: `open`) and end in cell `end`.
  struct Window {
    int mode = 0, begin = 0, end = 0;
    bool open = false;
  };
  /// A set of groups, and a bound on its like: work <= line + price * load.
  struct Set {
    double work = 0, load = 0;
  };
  struct Line {
    double price = 0, rest = 0;
  };
  struct Ends {
    double receive = 0, send = 0;
  };
  struct Known {
    std::vector<Line> lines;
    double period = 0;   ///< For which the lines are sharp.
    double refuted = 0;  ///< There are no stages of loads below.
  };

  double most_work(const Window& window);
  [[nodiscard]] double from_lines(const Known& known) const;
  void sharpen(const Window& window, Known& known);
  bool load_window(const Window& window);
  void mark_free(bool inside);
  [[nodiscard]] Set measure(int mode) const;
  Set ask(int mode, double price, Line& line);
  double cut_value(int value, int mode, double price);
  [[nodiscard]] Ends ends_of(int value, int mode) const {
    const auto& instance = model_->instance;
    const auto place = at(value, instance.types, instance.mode_type[at(mode)]);
    return {instance.receive[place], instance.send[place]};
  }

  enum class Part : char { kOut, kIn, kFree };

  const Model* model_;
  const Closure* closure_;
  double total_ = 0, slack_ = 0, period_ = 0;
  WorkCells cells_;
  const Budget* budget_ = nullptr;
  std::unordered_map<std::size_t, Known> known_;
  // The window at hand.
  std::vector<Part> part_;    // [group]
  std::vector<int> node_;     // [group] Of those that are free, in cut_.
  std::vector<char> inside_;  // [group] Of the set last found.
  std::vector<int> free_, forced_;
  std::vector<int> touched_;      // Values with a pin in the window.
  std::vector<char> is_touched_;  // [value]
  MinCut cut_;
  std::vector<double> usual_price_;  // [mode]
};

}  // namespace penstock::planner
