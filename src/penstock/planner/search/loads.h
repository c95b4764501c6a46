// Loads: what each device does under an assignment of groups to places.
// They are kept up to date move by move.
#pragma once

#include <vector>

#include "penstock/planner/problem/index.h"
#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

/// Where groups can be: a device and the mode in which it runs them.
struct Place {
  int device = 0;
  int mode = 0;
};

/// All places. Ordered: each is one stage, in this order, and groups must respect it. Else a place
/// stands for all stages of the device in that mode.
struct Places {
  std::vector<Place> list;
  bool ordered = false;
  std::vector<int> device_type;  ///< [device]

  [[nodiscard]] int size() const { return static_cast<int>(list.size()); }
  [[nodiscard]] int devices() const { return static_cast<int>(device_type.size()); }
};

/// Every device in each mode of its type; no order.
Places all_places(const Instance& instance);

/// Time by kind, of a device or by how much it changes.
struct Work {
  double compute = 0, in = 0, out = 0;
};

inline double combine(const Work& work, Overlap overlap) {
  switch (overlap) {
    case Overlap::kHalfDuplex:
      return work.compute > work.in + work.out ? work.compute : work.in + work.out;
    case Overlap::kFullDuplex: {
      const double most = work.in > work.out ? work.in : work.out;
      return work.compute > most ? work.compute : most;
    }
    case Overlap::kSerial:
      break;
  }
  return work.compute + work.in + work.out;
}

/// Values between places of one device are free, and a device receives or sends each once.
class Loads {
 public:
  /// Borrows both. `place_of` gives each group's place, one that supports it.
  Loads(const Instance& instance, const Places& places, std::vector<int> place_of);

  [[nodiscard]] const Instance& instance() const { return *instance_; }
  [[nodiscard]] const Places& places() const { return *places_; }
  [[nodiscard]] const std::vector<int>& place_of() const { return place_of_; }
  [[nodiscard]] int device_of(int group) const { return device_[at(group)]; }

  /// What moving a group would do to the device that it leaves and to the one that it joins; one
  /// device: all in `joined`. O(the group's values).
  struct Change {
    Work left, joined;
  };
  [[nodiscard]] Change change(int group, int place) const;
  void move(int group, int place, const Change& change);
  /// Forgets rounding errors, which moves gather. O(instance).
  void recount();

  [[nodiscard]] bool supports(int group, int place) const {
    return instance_->time_of(group, places_->list[at(place)].mode) < kInfinite;
  }
  /// Whether no group before it has a later place and none after it an earlier one.
  [[nodiscard]] bool in_order(int group, int place) const;
  [[nodiscard]] double memory(int device) const { return memory_[at(device)]; }
  [[nodiscard]] double memory_cap(int device) const {
    return instance_->type_memory[at(places_->device_type[at(device)])];
  }
  [[nodiscard]] bool within_memory() const;

  [[nodiscard]] double load(int device) const { return load_with(device, {}); }
  [[nodiscard]] double load_with(int device, const Work& extra) const {
    const auto& work = work_[at(device)];
    return combine({work.compute + extra.compute, work.in + extra.in, work.out + extra.out},
                   instance_->type_overlap[at(places_->device_type[at(device)])]);
  }
  [[nodiscard]] double period() const;  ///< The largest load.
  /// Values whose ends are on several devices, in no order.
  [[nodiscard]] const std::vector<int>& cut_values() const { return cut_; }

 private:
  void add_value(int value);
  void note_cut(int value, bool cut);
  void change_value(int group, int value, int from, int to, Change& change) const;
  [[nodiscard]] int type_of(int device) const { return places_->device_type[at(device)]; }

  const Instance* instance_;
  const Places* places_;
  std::vector<int> place_of_;    // [group]
  std::vector<int> device_;      // [group]
  std::vector<int> population_;  // [place] Groups there.
  std::vector<int> pins_at_;     // [value * devices + device] Pins of the value there.
  std::vector<int> cut_;         // Values on several devices.
  std::vector<int> cut_at_;      // [value] Where it stands in `cut_`; -1: nowhere.
  std::vector<Work> work_;       // [device]
  std::vector<double> memory_;   // [device]
};

}  // namespace penstock::planner
