// Walks every stage behind each ideal, by size, and keeps the least part taken to reach an ideal.
#include "penstock/planner/throughput/shared_ideals.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {
namespace {

constexpr double kPartSlack = 3e-9;                // Of the whole: more than rounding makes.
constexpr std::int64_t kStepsAtOnce = 512;         // Between two looks at the clock.
constexpr std::int64_t kMostStepsOfRun = 1 << 29;  // Of a run: about a minute.
constexpr int kMostIdeals = 500'000;

Model without_prices(Model model) {
  model.prices.clear();
  return model;
}

}  // namespace

double least_part(const Instance& instance, const Shares& shares, int group, double period,
                  double mix) {
  double least = kInfinite;
  for (int m = 0; m < instance.modes; ++m) {
    const auto type = at(instance.mode_type[at(m)]);
    const double time = instance.time_of(group, m), cap = instance.type_memory[type];
    if (instance.type_count[type] == 0 || time == kInfinite) continue;
    const double memory = cap > 0 ? instance.memory[at(group)] / cap : 0;
    least = std::min(least, shares.part[type] * ((1 - mix) * time / period + mix * memory));
  }
  return least;
}

SharedIdeals::SharedIdeals(const Model& model, const Shares& shares)
    : shares_(&shares),
      model_(without_prices(model)),
      room_(shares.whole * (1 + kPartSlack)),
      cursor_(model_),
      store_(model.instance.groups),
      words_(at(store_.words())) {}

FrontierResult SharedIdeals::run(double period, const Budget& budget) {
  start(period);
  const int groups = model_.instance.groups;
  for (int size = 0; size < groups && !stopped_ && goal_ < 0; ++size) {
    for (std::size_t i = 0; i < by_size_[at(size)].size() && !stopped_ && goal_ < 0; ++i) {
      expand(by_size_[at(size)][i], budget);
    }
  }
  FrontierResult result;
  result.steps = steps_;
  result.reached = goal_ >= 0 ? Reached::kFound : stopped_ ? Reached::kStopped : Reached::kNone;
  if (goal_ >= 0) trace(result);
  return result;
}

void SharedIdeals::start(double period) {
  const auto& instance = model_.instance;
  period_ = period;
  steps_ = 0;
  stopped_ = false;
  goal_ = -1;
  total_.fill(0);
  least_.assign(at(instance.groups), {});
  for (int g = 0; g < instance.groups; ++g) {
    for (std::size_t k = 0; k < kMixes; ++k) {
      const double mix = static_cast<double>(k) / (kMixes - 1);
      total_[k] += least_[at(g)][k] = least_part(instance, *shares_, g, period, mix);
    }
  }
  store_ = IdealStore(instance.groups);
  states_.assign(1, {});
  states_.front().taken = 0;
  by_size_.assign(at(instance.groups) + 1, {});
  std::ranges::fill(words_, 0);
  by_size_.front().push_back(store_.find_or_add(words_, 0).first);
}

/// Whether what is left may do for what is behind the ideal and the stage.
bool SharedIdeals::enough(double taken, std::size_t mix) const {
  return taken + total_[mix] - done_[mix] <= room_;
}

void SharedIdeals::expand(int ideal, const Budget& budget) {
  const auto& instance = model_.instance;
  const auto state = states_[at(ideal)];
  done_ = state.done;
  for (std::size_t k = 0; k < kMixes; ++k) {
    if (!enough(state.taken, k)) return;
  }
  ideal_ = ideal;
  store_.copy(ideal, words_);
  cursor_.move_to(words_, {}, state.key);
  for (int m = 0; m < instance.modes && !stopped_ && goal_ < 0; ++m) {
    const auto type = at(instance.mode_type[at(m)]);
    if (instance.type_count[type] == 0) continue;
    mode_ = m;
    most_replicas_ = model_.replicas ? instance.type_count[type] : 1;
    part_ = shares_->part[type];
    compute_ = instance.mode_launch[at(m)];
    cursor_.set_mode(m);
    walk(budget);
    while (!cursor_.stage().empty()) drop();
  }
}

/// Through all stages behind the ideal: each once, as the sequence of its groups in ascending
/// order.
void SharedIdeals::walk(const Budget& budget) {
  open_.clear();
  levels_.clear();
  const auto available = cursor_.available();
  for (std::size_t w = 0; w < available.size(); ++w) {
    for (Word bits = available[w]; bits != 0; bits &= bits - 1) {
      open_.push_back(static_cast<int>(w) * kWordBits + std::countr_zero(bits));
    }
  }
  levels_.push_back({0, open_.size()});
  while (!stopped_ && goal_ < 0) {
    auto& level = levels_.back();
    if (level.next == level.end) {
      levels_.pop_back();
      if (levels_.empty()) return;
      drop();
      open_.resize(levels_.back().end);
      continue;
    }
    const int group = open_[level.next++];
    if (++steps_ >= kMostStepsOfRun || (steps_ % kStepsAtOnce == 0 && budget.over()))
      stopped_ = true;
    if (!add(group)) continue;
    descend(group);
    emit();
  }
}

/// Adds the group, unless neither the stage with it nor any longer one is of use.
bool SharedIdeals::add(int group) {
  if (!cursor_.supports(group)) return false;
  cursor_.add(group);
  compute_ += model_.instance.time_of(group, mode_);
  for (std::size_t k = 0; k < kMixes; ++k) done_[k] += least_[at(group)][k];
  // With a device or more to do, each further group costs its part at least: the sum only grows.
  const double paid = states_[at(ideal_)].taken + part_ * compute_ / period_;
  const bool grows = cursor_.floor() < period_ * most_replicas_ && cursor_.floor_fits_memory();
  if (grows && (compute_ < period_ || enough(paid, 0))) return true;
  drop();
  return false;
}

void SharedIdeals::drop() {
  const int group = cursor_.stage().back();
  compute_ -= model_.instance.time_of(group, mode_);
  for (std::size_t k = 0; k < kMixes; ++k) done_[k] -= least_[at(group)][k];
  cursor_.drop();
}

/// A level for what may follow `group`: the rest of the level above and what it makes available.
void SharedIdeals::descend(int group) {
  const auto above = levels_.back();
  const auto begin = open_.size();
  for (const int after : model_.instance.after[group]) {
    if (has_bit(cursor_.available(), after)) open_.push_back(after);
  }
  for (auto i = above.next; i < above.end; ++i) open_.push_back(open_[i]);
  std::sort(open_.begin() + static_cast<std::ptrdiff_t>(begin), open_.end());
  levels_.push_back({begin, open_.size()});
}

void SharedIdeals::emit() {
  if (!cursor_.fits_memory()) return;
  const double load = cursor_.load();
  if (!(load < period_ * most_replicas_)) return;
  int replicas = std::max(1, static_cast<int>(load / period_));
  while (!(load / replicas < period_) && replicas < most_replicas_) ++replicas;
  const double taken = states_[at(ideal_)].taken + replicas * part_;
  for (std::size_t k = 0; k < kMixes; ++k) {
    if (!enough(taken, k)) return;
  }
  const auto [ideal, fresh] = store_.find_or_add(cursor_.words(), cursor_.key());
  if (fresh) {
    states_.emplace_back();
    by_size_[at(cursor_.size())].push_back(ideal);
    if (ideal >= kMostIdeals) stopped_ = true;
  }
  auto& state = states_[at(ideal)];
  if (!(taken < state.taken)) return;
  state = {taken, done_, cursor_.key(), ideal_, mode_, replicas};
  if (cursor_.size() == model_.instance.groups) goal_ = ideal;
}

void SharedIdeals::trace(FrontierResult& result) {
  std::vector<Word> after(words_.size());
  for (int ideal = goal_; states_[at(ideal)].parent >= 0; ideal = states_[at(ideal)].parent) {
    const auto& state = states_[at(ideal)];
    store_.copy(ideal, after);
    store_.copy(state.parent, words_);
    Stage stage{{}, state.mode, std::vector<int>(at(state.replicas), -1)};
    for (int g = 0; g < model_.instance.groups; ++g) {
      if (has_bit(after, g) && !has_bit(words_, g)) stage.groups.push_back(g);
    }
    result.split.stages.push_back(std::move(stage));
  }
  std::ranges::reverse(result.split.stages);
  result.period = period_;
}

}  // namespace penstock::planner
