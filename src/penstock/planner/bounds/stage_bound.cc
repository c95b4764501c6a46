// Bounds a stage's work by Lagrangian relaxation: cutting planes pick prices, minimum cuts answer.
#include "penstock/planner/bounds/stage_bound.h"

#include <algorithm>

namespace penstock::planner {
namespace {

constexpr int kMostQuestions = 5;  // Prices asked for a window and a period.
constexpr double kNear = 0.01;     // Periods this near share the prices.
constexpr double kSharp = 2e-3;    // A bound that can gain no more is good enough.

}  // namespace

StageBound::StageBound(const Model& model, const Closure& closure)
    : model_(&model),
      closure_(&closure),
      total_(closure.total.front()),
      slack_(1e-9 * total_),
      cells_(total_),
      part_(at(model.instance.groups)),
      node_(at(model.instance.groups)),
      inside_(at(model.instance.groups), 0),
      is_touched_(at(model.instance.values), 0),
      usual_price_(at(model.instance.modes), 0) {}

void StageBound::set_period(double period, const Budget& budget) {
  period_ = period * (1 + kSlack);
  budget_ = &budget;
}

double StageBound::least_begin(int mode, double begin, double end, double enough) {
  const int end_cell = cells_.of(end);
  while (begin < std::min(end, enough)) {
    const int cell = cells_.of(begin);
    const double reached = end - most_work({mode, cell, end_cell, true});
    begin = std::max(begin, reached);
    if (begin >= enough || cells_.of(begin) > cell) continue;
    const double behind = cells_.end_of(begin);
    const double in_cell = end - most_work({mode, cell, end_cell, false});
    if (in_cell <= behind) return std::max(begin, in_cell);
    begin = behind;
  }
  return std::min(begin, end);
}

double StageBound::most_work(const Window& window) {
  constexpr int kEnds = WorkCells::kCells + 2;
  const auto place = at((window.mode * kEnds + window.begin) * kEnds + window.end);
  auto& known = known_[2 * place + (window.open ? 1 : 0)];
  if (std::abs(known.period - period_) > kNear * period_ && !budget_->over()) {
    known.period = period_;
    sharpen(window, known);
  }
  return from_lines(known);
}

double StageBound::from_lines(const Known& known) const {
  if (period_ <= known.refuted) return -total_;
  double most = total_;
  for (const auto& [price, rest] : known.lines) most = std::min(most, rest + price * period_);
  return most + slack_;
}

/// Cutting planes: the next price is where the lines of the two nearest sets meet.
void StageBound::sharpen(const Window& window, Known& known) {
  if (!load_window(window)) {
    known.refuted = kInfinite;
    return;
  }
  mark_free(true);
  Set above = measure(window.mode);
  mark_free(false);
  Set below = measure(window.mode);
  known.lines.push_back({0, above.work});
  if (above.load <= period_) return;
  bool is_below = below.load <= period_;
  const double least = below.work;
  double price = 0;
  for (int i = 0; i < kMostQuestions; ++i) {
    if (is_below && above.load <= below.load) return;
    auto& usual = usual_price_[at(window.mode)];  // Windows side by side are much alike.
    if (i == 0 && usual > 0) {
      price = usual;
    } else if (is_below) {
      price = (above.work - below.work) / (above.load - below.load);
    } else {
      price = std::max(4 * price, above.work / period_);
    }
    Line line;
    const auto found = ask(window.mode, price, line);
    known.lines.push_back(line);
    const double most = line.rest + price * period_;
    if (most + slack_ < least) {
      known.refuted = period_;
      return;
    }
    if (is_below && most - below.work - price * (period_ - below.load) < kSharp * most) return;
    if (is_below) usual = price;
    (found.load > period_ ? above : below) = found;
    is_below = is_below || found.load <= period_;
  }
}

/// Whether the mode supports what the window's stages must hold.
bool StageBound::load_window(const Window& window) {
  const auto& instance = model_->instance;
  const double begin = cells_.low(window.begin), begin_end = cells_.begin(window.begin + 1);
  const double end = cells_.low(window.end), end_end = cells_.begin(window.end + 1);
  free_.clear();
  forced_.clear();
  for (int g = 0; g < instance.groups; ++g) {
    const double first = closure_->before[at(g)], last = total_ - closure_->work.front()[at(g)];
    auto& part = part_[at(g)];
    part = Part::kOut;
    if (last < begin - slack_ || first > end_end + slack_) continue;
    const bool forced = !window.open && first > begin_end + slack_ && last < end - slack_;
    if (instance.time_of(g, window.mode) == kInfinite) {
      if (forced) return false;
      continue;
    }
    part = forced ? Part::kIn : Part::kFree;
    (forced ? forced_ : free_).push_back(g);
  }
  for (const int v : touched_) is_touched_[at(v)] = 0;
  touched_.clear();
  if (instance.type_overlap[at(instance.mode_type[at(window.mode)])] != Overlap::kSerial) {
    return true;
  }
  for (const auto* groups : {&free_, &forced_}) {
    for (const int g : *groups) {
      for (const int v : instance.values_of[g]) {
        if (is_touched_[at(v)] == 0) touched_.push_back(v);
        is_touched_[at(v)] = 1;
      }
    }
  }
  return true;
}

/// The set of the groups marked in `inside_`.
StageBound::Set StageBound::measure(int mode) const {
  const auto& instance = model_->instance;
  const auto& work = model_->prices.front().group;
  Set set{0, instance.mode_launch[at(mode)]};
  for (const auto* groups : {&free_, &forced_}) {
    for (const int g : *groups) {
      if (inside_[at(g)] == 0) continue;
      set.work += work[at(g)];
      set.load += instance.time_of(g, mode);
    }
  }
  for (const int v : touched_) {
    const auto pins = instance.pins[v];
    const auto is_inside = [&](int pin) { return inside_[at(pin)] != 0; };
    const auto ends = ends_of(v, mode);
    if (is_inside(instance.producer[at(v)])) {
      if (!std::ranges::all_of(pins, is_inside)) set.load += ends.send;
    } else if (std::ranges::any_of(pins, is_inside)) {
      set.load += ends.receive;
    }
  }
  return set;
}

void StageBound::mark_free(bool inside) {
  inside_.assign(inside_.size(), 0);
  for (const int g : forced_) inside_[at(g)] = 1;
  for (const int g : free_) inside_[at(g)] = inside ? 1 : 0;
}

/// The set with the most work - price * load, and the line of the price.
StageBound::Set StageBound::ask(int mode, double price, Line& line) {
  const auto& instance = model_->instance;
  const auto& work = model_->prices.front().group;
  cut_.reset(static_cast<int>(free_.size()));
  line = {price, -price * instance.mode_launch[at(mode)]};
  for (const int g : forced_) line.rest += work[at(g)] - price * instance.time_of(g, mode);
  for (int i = 0; i < static_cast<int>(free_.size()); ++i) {
    const int g = free_[at(i)];
    node_[at(g)] = i;
    cut_.add_ends(i, 0, price * instance.time_of(g, mode) - work[at(g)]);
  }
  for (const int v : touched_) line.rest -= cut_value(v, mode, price);
  line.rest -= cut_.run();
  mark_free(false);
  for (const int g : free_) inside_[at(g)] = cut_.is_inside(node_[at(g)]) ? 1 : 0;
  return measure(mode);
}

/// Puts what the value costs into the network, and gives what it costs in any case.
double StageBound::cut_value(int value, int mode, double price) {
  const auto& instance = model_->instance;
  const int producer = instance.producer[at(value)];
  const auto home = part_[at(producer)];
  auto [receive, send] = ends_of(value, mode);
  receive *= price;
  send *= price;
  int out = 0, in = 0, free = 0, last = -1;
  for (const int pin : instance.pins[value]) {
    if (pin == producer) continue;
    const auto part = part_[at(pin)];
    ++(part == Part::kOut ? out : part == Part::kIn ? in : free);
    if (part == Part::kFree) last = node_[at(pin)];
  }
  double fixed = 0;
  int sender = -1, receiver = -1;  // Nodes that say whether all readers are inside, whether any.
  // Sending: the producer is inside, some reader is not.
  if (home != Part::kOut && out > 0) {
    if (home == Part::kIn) fixed += send;
    if (home == Part::kFree) cut_.add_ends(node_[at(producer)], 0, send);
  } else if (home != Part::kOut && free > 0) {
    sender = free == 1 ? last : cut_.add_node();
    if (home == Part::kIn) cut_.add_ends(sender, send, 0);
    if (home == Part::kFree) cut_.add_arc(node_[at(producer)], sender, send, 0);
  }
  // Receiving: some reader is inside, the producer is not.
  if (home != Part::kIn && in > 0) {
    if (home == Part::kOut) fixed += receive;
    if (home == Part::kFree) cut_.add_ends(node_[at(producer)], receive, 0);
  } else if (home != Part::kIn && free > 0) {
    receiver = free == 1 ? last : cut_.add_node();
    if (home == Part::kOut) cut_.add_ends(receiver, 0, receive);
    if (home == Part::kFree) cut_.add_arc(receiver, node_[at(producer)], receive, 0);
  }
  for (const int pin : instance.pins[value]) {
    if (free < 2 || pin == producer || part_[at(pin)] != Part::kFree) continue;
    if (sender >= 0) cut_.add_arc(sender, node_[at(pin)], kInfinite, 0);
    if (receiver >= 0) cut_.add_arc(node_[at(pin)], receiver, kInfinite, 0);
  }
  return fixed;
}

}  // namespace penstock::planner
