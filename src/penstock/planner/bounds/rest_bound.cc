// The least work before each multiset of devices left, by fractional knapsacks and bisection.
#include "penstock/planner/bounds/rest_bound.h"

#include <algorithm>
#include <numeric>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

constexpr double kMostSteps = 2e7;  // Groups looked at for one period.
constexpr int kHalvingsOfRest = 20;

}  // namespace

RestBound::RestBound(const Model& model, const Closure& closure)
    : model_(&model), closure_(&closure) {
  const auto& instance = model.instance;
  double multisets = 1;
  for (const int count : instance.type_count) {
    stride_.push_back(static_cast<std::size_t>(multisets));
    multisets *= count + 1;
    if (multisets > kMostSteps) return;
  }
  possible_ = !model.replicas && !model.prices.front().is_memory &&
              multisets * instance.modes * instance.groups <= kMostSteps;
  total_ = closure.total.front();
  possible_ = possible_ && total_ > 0;
  if (!possible_) return;
  least_.resize(static_cast<std::size_t>(multisets));
  cells_ = WorkCells(total_);
  worth_ = instance.types > 1;
  slack_ = 1e-9 * total_;  // Sums in other orders differ by rounding.
  put_items(closure);
}

void RestBound::put_items(const Closure& closure) {
  const auto& instance = model_->instance;
  const auto& work = model_->prices.front().group;
  for (int m = 0; m < instance.modes; ++m) {
    ModeItems items;
    for (int g = 0; g < instance.groups; ++g) {
      const Item item{closure.before[at(g)], total_ - closure.work.front()[at(g)], work[at(g)],
                      instance.time_of(g, m)};
      items.by_first.push_back(item);
      if (item.work > 0 && item.time < kInfinite) items.by_value.push_back(item);
    }
    std::ranges::sort(items.by_value, [](const Item& a, const Item& b) {
      return a.work * b.time > b.work * a.time;
    });
    std::ranges::sort(items.by_first, std::ranges::greater(), &Item::first);
    if (!items.by_value.empty()) {
      const auto& best = items.by_value.front();
      items.best_value = best.time > 0 ? best.work / best.time : kInfinite;
    }
    modes_.push_back(std::move(items));
  }
}

void RestBound::use_transfers() {
  if (possible_ && !stages_) stages_.emplace(*model_, *closure_);
  worth_ = true;
}

void RestBound::set_period(double period, const Budget& budget) {
  if (stages_) stages_->set_period(period, budget);
  const auto& instance = model_->instance;
  std::vector<int> left(at(instance.types), 0);
  for (std::size_t s = 0; s < least_.size(); ++s) {
    double least = total_;
    for (int t = 0; t < instance.types; ++t) {
      left[at(t)] = static_cast<int>(s / stride_[at(t)]) % (instance.type_count[at(t)] + 1);
      if (left[at(t)] > 0) least = std::min(least, least_[s - stride_[at(t)]]);
    }
    for (int m = 0; m < instance.modes && least > 0; ++m) {
      const auto type = at(instance.mode_type[at(m)]);
      if (left[type] == 0) continue;
      const double room = (period - instance.mode_launch[at(m)]) * (1 + kSlack);
      if (room <= 0) continue;
      least = std::min(least, least_begin(m, room, least_[s - stride_[type]], least));
    }
    least_[s] = least;
  }
}

double RestBound::least_done(std::span<const int> left) const {
  std::size_t multiset = 0;
  for (std::size_t t = 0; t < left.size(); ++t) {
    multiset += stride_[t] * static_cast<std::size_t>(left[t]);
  }
  return least_[multiset] - slack_;
}

/// The least work before a stage of at most `room` that ends at `end` or behind it. The end is
/// tried cell by cell, as within a cell the groups that the stage may hold are nearly the same.
double RestBound::least_begin(int mode, double room, double end, double enough) {
  const auto& items = modes_[at(mode)];
  double least = std::min(end, enough);
  for (double cell = end; cell <= total_; cell = cells_.end_of(cell)) {
    const double floor = forced_floor(items, room, cell, slack_);
    if (std::max(floor, cell - room * items.best_value) >= least) break;  // Behind it too.
    const double begin = begin_in_cell(items, room, floor, cell, cells_.width);
    if (begin >= least) continue;
    least = stages_ ? std::min(least, stages_->least_begin(mode, begin, cell, least)) : begin;
  }
  return std::max(0.0, least);
}

/// The least work from which what the stage must hold fits into `room`.
double RestBound::forced_floor(const ModeItems& items, double room, double end, double slack) {
  double sum = 0;
  for (const auto& item : items.by_first) {
    if (item.last + slack >= end) continue;
    sum += item.time;
    if (sum > room) return item.first - slack;
  }
  return 0;
}

double RestBound::begin_in_cell(const ModeItems& items, double room, double floor, double end,
                                double width) const {
  std::vector<Item> near;  // What the stage may hold.
  for (const auto& item : items.by_value) {
    if (item.first > end + width + slack_ || item.last < floor - slack_) continue;
    near.push_back(item);
  }
  const auto fits_from = [&](double begin) {
    double left = room, missing = end - begin;
    for (const auto& item : near) {
      if (item.first - slack_ <= begin || item.last + slack_ >= end) continue;
      left -= item.time;
      missing -= item.work;
    }
    for (const auto& item : near) {
      if (left < 0 || missing <= slack_) break;
      if (item.first - slack_ > begin && item.last + slack_ < end) continue;
      const double share = std::min(1.0, missing / item.work);
      left -= share * item.time;
      missing -= share * item.work;
    }
    return left >= 0 && missing <= slack_;
  };
  double low = std::max(0.0, floor), high = end;
  if (fits_from(low)) return low;
  for (int i = 0; i < kHalvingsOfRest; ++i) {
    const double middle = 0.5 * (low + high);
    (fits_from(middle) ? high : low) = middle;
  }
  return low;
}

}  // namespace penstock::planner
