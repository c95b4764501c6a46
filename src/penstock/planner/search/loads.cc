// Counts each value's pins on each device, from which a move's effect on both devices follows.
#include "penstock/planner/search/loads.h"

#include <algorithm>
#include <utility>

namespace penstock::planner {

Places all_places(const Instance& instance) {
  Places places;
  for (int t = 0; t < instance.types; ++t) {
    for (int i = 0; i < instance.type_count[at(t)]; ++i) {
      for (int m = 0; m < instance.modes; ++m) {
        if (instance.mode_type[at(m)] == t) places.list.push_back({places.devices(), m});
      }
      places.device_type.push_back(t);
    }
  }
  return places;
}

Loads::Loads(const Instance& instance, const Places& places, std::vector<int> place_of)
    : instance_(&instance), places_(&places), place_of_(std::move(place_of)) {
  recount();
}

void Loads::recount() {
  const int devices = places_->devices();
  device_.assign(at(instance_->groups), 0);
  population_.assign(at(places_->size()), 0);
  pins_at_.assign(at(instance_->values) * at(devices), 0);
  work_.assign(at(devices), {});
  memory_.assign(at(devices), 0);
  for (int g = 0; g < instance_->groups; ++g) {
    const int p = place_of_[at(g)];
    const auto [device, mode] = places_->list[at(p)];
    device_[at(g)] = device;
    work_[at(device)].compute += instance_->time_of(g, mode);
    if (population_[at(p)]++ == 0) work_[at(device)].compute += instance_->mode_launch[at(mode)];
    memory_[at(device)] += instance_->memory[at(g)];
  }
  cut_.clear();
  cut_at_.assign(at(instance_->values), -1);
  for (int v = 0; v < instance_->values; ++v) add_value(v);
}

void Loads::note_cut(int value, bool cut) {
  int& own = cut_at_[at(value)];
  if (cut == (own >= 0)) return;
  if (cut) {
    own = static_cast<int>(cut_.size());
    cut_.push_back(value);
    return;
  }
  cut_[at(own)] = cut_.back();
  cut_at_[at(cut_.back())] = own;
  cut_.pop_back();
  own = -1;
}

void Loads::add_value(int value) {
  const int devices = places_->devices();
  const auto pins = instance_->pins[value];
  for (const int g : pins) ++pins_at_[at(value, devices, device_[at(g)])];
  const int home = device_[at(instance_->producer[at(value)])];
  note_cut(value, std::cmp_less(pins_at_[at(value, devices, home)], pins.size()));
  for (int d = 0; d < devices; ++d) {
    const int here = pins_at_[at(value, devices, d)];
    if (here == 0 || std::cmp_equal(here, pins.size())) continue;
    const auto cost = at(value, instance_->types, type_of(d));
    if (d == home) {
      work_[at(d)].out += instance_->send[cost];
    } else {
      work_[at(d)].in += instance_->receive[cost];
    }
  }
}

void Loads::change_value(int group, int value, int from, int to, Change& change) const {
  const int devices = places_->devices();
  const int pins = static_cast<int>(instance_->pins[value].size());
  const int old_here = pins_at_[at(value, devices, from)];
  const int old_there = pins_at_[at(value, devices, to)];
  const auto here = at(value, instance_->types, type_of(from));
  const auto there = at(value, instance_->types, type_of(to));
  const int producer = instance_->producer[at(value)];
  if (producer == group) {  // The devices of its readers receive, or no longer send.
    if (old_here < pins) change.left.out -= instance_->send[here];
    if (old_here > 1) change.left.in += instance_->receive[here];
    if (old_there > 0) change.joined.in -= instance_->receive[there];
    if (old_there + 1 < pins) change.joined.out += instance_->send[there];
    return;
  }
  const int home = device_[at(producer)];
  if (from == home) {
    if (old_here == pins) change.left.out += instance_->send[here];
  } else if (old_here == 1) {
    change.left.in -= instance_->receive[here];
  }
  if (to == home) {
    if (old_there + 1 == pins) change.joined.out -= instance_->send[there];
  } else if (old_there == 0) {
    change.joined.in += instance_->receive[there];
  }
}

Loads::Change Loads::change(int group, int place) const {
  const int old = place_of_[at(group)];
  const auto [from, from_mode] = places_->list[at(old)];
  const auto [to, to_mode] = places_->list[at(place)];
  Change change;
  if (old == place) return change;
  auto& left = from == to ? change.joined : change.left;
  left.compute -= instance_->time_of(group, from_mode);
  if (population_[at(old)] == 1) left.compute -= instance_->mode_launch[at(from_mode)];
  change.joined.compute += instance_->time_of(group, to_mode);
  if (population_[at(place)] == 0) change.joined.compute += instance_->mode_launch[at(to_mode)];
  if (from == to) return change;
  for (const int v : instance_->values_of[group]) change_value(group, v, from, to, change);
  return change;
}

void Loads::move(int group, int place, const Change& change) {
  const int from = device_[at(group)], to = places_->list[at(place)].device;
  const auto add = [](Work& work, const Work& more) {
    work.compute += more.compute;
    work.in += more.in;
    work.out += more.out;
  };
  add(work_[at(from)], change.left);
  add(work_[at(to)], change.joined);
  --population_[at(place_of_[at(group)])];
  ++population_[at(place)];
  place_of_[at(group)] = place;
  if (from == to) return;
  memory_[at(from)] -= instance_->memory[at(group)];
  memory_[at(to)] += instance_->memory[at(group)];
  device_[at(group)] = to;
  for (const int v : instance_->values_of[group]) {
    --pins_at_[at(v, places_->devices(), from)];
    const int there = ++pins_at_[at(v, places_->devices(), to)];
    note_cut(v, std::cmp_less(there, instance_->pins[v].size()));
  }
}

bool Loads::in_order(int group, int place) const {
  if (!places_->ordered) return true;
  for (const int g : instance_->before[group]) {
    if (place_of_[at(g)] > place) return false;
  }
  for (const int g : instance_->after[group]) {
    if (place_of_[at(g)] < place) return false;
  }
  return true;
}

bool Loads::within_memory() const {
  for (int d = 0; d < places_->devices(); ++d) {
    if (memory(d) > memory_cap(d) * (1 + 1e-9)) return false;  // Sums differ by rounding.
  }
  return true;
}

double Loads::period() const {
  double most = 0;
  for (int d = 0; d < places_->devices(); ++d) most = std::max(most, load(d));
  return most;
}

}  // namespace penstock::planner
