// Sums updated group by group and undone from a stack; proves when a stage may take one more group.
#include "penstock/planner/throughput/cursor.h"

#include <algorithm>
#include <bit>
#include <random>

#include "penstock/planner/problem/index.h"

namespace penstock::planner {

Cursor::Cursor(const Model& model)
    : model_(&model),
      instance_(&model.instance),
      prices_(static_cast<int>(model.prices.size())),
      words_(at(model.instance.groups / kWordBits + 1), 0),
      before_(words_),
      available_(words_),
      values_(at(model.instance.values)) {
  std::mt19937_64 random(1);
  for (int g = 0; g < instance_->groups; ++g) {
    keys_.push_back(random());
    missing_.push_back(static_cast<int>(instance_->before[g].size()));
    if (missing_.back() == 0) flip_bit(available_, g);
    for (int t = 0; t < instance_->types; ++t) {
      double least = kInfinite;
      for (int m = 0; m < instance_->modes; ++m) {
        if (instance_->mode_type[at(m)] == t) least = std::min(least, instance_->time_of(g, m));
      }
      least_time_.push_back(instance_->type_count[at(t)] > 0 ? least : kInfinite);
    }
  }
  for (int t = 0; t < instance_->types; ++t) {
    for (int v = 0; v < instance_->values; ++v) {
      ends_.push_back({instance_->receive[at(v, instance_->types, t)],
                       instance_->send[at(v, instance_->types, t)]});
    }
  }
  for (int v = 0; v < instance_->values; ++v) {
    values_[at(v)].pins = static_cast<int>(instance_->pins[v].size());
  }
}

/// Marks the group as in (or, the other way round, out) and keeps `available_`.
void Cursor::put_group(int group) {
  flip_bit(words_, group);
  flip_bit(available_, group);
  const int step = has_bit(words_, group) ? -1 : 1;
  size_ -= step;
  for (const int after : instance_->after[group]) {
    auto& missing = missing_[at(after)];
    if (missing == (step < 0 ? 1 : 0)) flip_bit(available_, after);
    missing += step;
  }
}

void Cursor::shift(int group, int sign) {
  put_group(group);
  for (const int v : instance_->values_of[group]) {
    auto& state = values_[at(v)];
    state.before += sign;
    if (instance_->producer[at(v)] == group) {
      state.producer = sign > 0 ? Place::kBefore : Place::kBehind;
    }
  }
}

void Cursor::move_to(std::span<const Word> ideal, const Priced& priced, std::uint64_t key) {
  // Out from the last group down, in from the first one up: every set on the way is an ideal.
  for (std::size_t w = words_.size(); w-- > 0;) {
    for (Word out = words_[w] & ~ideal[w]; out != 0;) {
      const int bit = kWordBits - 1 - std::countl_zero(out);
      out ^= Word{1} << bit;
      shift(static_cast<int>(w) * kWordBits + bit, -1);
    }
  }
  for (std::size_t w = 0; w < words_.size(); ++w) {
    for (Word in = ideal[w] & ~words_[w]; in != 0; in &= in - 1) {
      shift(static_cast<int>(w) * kWordBits + std::countr_zero(in), 1);
    }
  }
  before_ = words_;
  sums_ = {};
  sums_.priced = priced;
  sums_.key = key;
}

void Cursor::set_mode(int mode) {
  mode_ = mode;
  type_ = instance_->mode_type[at(mode)];
  sums_.compute = instance_->mode_launch[at(mode)];
}

void Cursor::add_priced(int value, const ValueState& state, bool producing) {
  const int pins = state.before + state.inside;  // Before the group came.
  const bool was_produced = state.producer != Place::kBehind;
  const bool is_produced = was_produced || producing;
  for (int i = 0; i < prices_; ++i) {
    const auto& prices = model_->prices[at(i)];
    const double receive = prices.receive[at(value)], send = prices.send[at(value)];
    if (pins > 0) sums_.priced.cut[at(i)] -= was_produced ? receive : send;
    if (pins + 1 < state.pins) sums_.priced.cut[at(i)] += is_produced ? receive : send;
  }
}

void Cursor::add_value(int value, int group) {
  auto& state = values_[at(value)];
  const auto [receive, send] = ends_[at(type_, instance_->values, value)];
  const double bytes = model_->holds_transfers ? instance_->bytes[at(value)] : 0;
  const bool producing = instance_->producer[at(value)] == group;
  add_priced(value, state, producing);
  auto& [in, out, held] = sums_.transfers;
  if (state.inside > 0) {  // It was cut: the group was missing.
    (state.producer == Place::kStage ? out : in) -=
        state.producer == Place::kStage ? send : receive;
    held -= bytes;
  } else if (state.before > 0) {
    sums_.floor_in += state.producer == Place::kBefore ? receive : 0;
    sums_.floor_any += state.producer == Place::kBefore ? receive : std::min(receive, send);
    sums_.floor_bytes += bytes;
  }
  ++state.inside;
  if (producing) state.producer = Place::kStage;
  if (state.inside == state.pins) return;
  (state.producer == Place::kStage ? out : in) += state.producer == Place::kStage ? send : receive;
  held += bytes;
}

void Cursor::add(int group) {
  undo_.push_back(sums_);
  stage_.push_back(group);
  sums_.compute += instance_->time_of(group, mode_);
  sums_.memory += instance_->memory[at(group)];
  sums_.key ^= keys_[at(group)];
  for (int i = 0; i < prices_; ++i) {
    const auto& prices = model_->prices[at(i)];
    sums_.priced.work[at(i)] += prices.group[at(group)];
    sums_.priced.lacking[at(i)] += prices.lacks[at(group)];
  }
  for (const int v : instance_->values_of[group]) add_value(v, group);
  put_group(group);
}

void Cursor::drop() {
  const int group = stage_.back();
  stage_.pop_back();
  put_group(group);
  for (const int v : instance_->values_of[group]) {
    auto& state = values_[at(v)];
    --state.inside;
    if (instance_->producer[at(v)] == group) state.producer = Place::kBehind;
  }
  sums_ = undo_.back();
  undo_.pop_back();
}

double Cursor::load() const {
  return load_of(instance_->type_overlap[at(type_)], sums_.compute, sums_.transfers);
}

bool Cursor::fits_with(int group, double load) const {
  const double bytes = sums_.memory + instance_->memory[at(group)];
  if (!supports(group) || !fits(bytes, instance_->type_memory[at(type_)])) return false;
  auto transfers = sums_.transfers;
  for (const int v : instance_->values_of[group]) {
    const auto& state = values_[at(v)];
    const auto [receive, send] = ends_[at(type_, instance_->values, v)];
    const bool sent = state.producer == Place::kStage;
    const bool sends = sent || instance_->producer[at(v)] == group;
    if (state.inside > 0) (sent ? transfers.out : transfers.in) -= sent ? send : receive;
    if (state.inside + 1 == state.pins) continue;
    (sends ? transfers.out : transfers.in) += sends ? send : receive;
  }
  const double compute = sums_.compute + instance_->time_of(group, mode_);
  return load_of(instance_->type_overlap[at(type_)], compute, transfers) < load;
}

double Cursor::duration() const {
  return sums_.compute + sums_.transfers.in + sums_.transfers.out;
}

double Cursor::floor() const {
  switch (instance_->type_overlap[at(type_)]) {
    case Overlap::kHalfDuplex:
      return std::max(sums_.compute, sums_.floor_any);
    case Overlap::kFullDuplex:
      return std::max(sums_.compute, sums_.floor_in);
    case Overlap::kSerial:
      break;
  }
  return sums_.compute + sums_.floor_any;
}

bool Cursor::fits_memory() const {
  return fits(sums_.memory + sums_.transfers.bytes, instance_->type_memory[at(type_)]);
}

bool Cursor::floor_fits_memory() const {
  return fits(sums_.memory + sums_.floor_bytes, instance_->type_memory[at(type_)]);
}

/// Let I be J with the stage, and take a plan whose later boundaries are I = I_0, I_1, ... Replace
/// each by I_i with `group`. Only one later stage changes: the one that held the group, of type t
/// say. It loses the group's time, and its values change thus. With no pin in I, a value of the
/// group's may now be cut there: then the stage receives it if the group produces it, else sends it
/// if it produces it. With a pin in I it was cut already, and at most turns from sent to received,
/// if the group is its producer. So with the serial load the stage gets no worse if these costs are
/// at most the least time of the group on t; with a maximum, if they are nothing. Memory shrinks,
/// order stays. Latency, and memory that transfers hold, may grow: the rule is not for them.
bool Cursor::may_pull(int group) const {
  for (int t = 0; t < instance_->types; ++t) {
    const double time = least_time_[at(group, instance_->types, t)];
    if (time == kInfinite) continue;
    const auto overlap = instance_->type_overlap[at(t)];
    double most = overlap == Overlap::kSerial ? time : 0, grown = 0;
    for (const int v : instance_->values_of[group]) {
      const auto& state = values_[at(v)];
      const auto [receive, send] = ends_[at(t, instance_->values, v)];
      const bool produces = instance_->producer[at(v)] == group;
      if (state.before + state.inside == 0) {
        grown += produces ? receive : send;
      } else if (state.before + state.inside + 1 == state.pins) {
        if (overlap != Overlap::kFullDuplex) most += produces ? send : receive;
      } else if (produces) {
        grown += overlap == Overlap::kFullDuplex ? receive : std::max(0.0, receive - send);
      }
    }
    if (grown > most) return false;
  }
  return true;
}

}  // namespace penstock::planner
