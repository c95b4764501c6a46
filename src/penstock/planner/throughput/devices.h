// DeviceDealer: which devices the stages of a contiguous split get, by type.
#pragma once

#include <vector>

#include "penstock/planner/problem/index.h"
#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

/// Hands out each type's devices one after the other; they are alike.
class DeviceDealer {
 public:
  explicit DeviceDealer(const Instance& instance) : instance_(&instance) {
    int first = 0;
    for (const int count : instance.type_count) {
      next_.push_back(first);
      first += count;
    }
  }

  std::vector<int> deal(int mode, int count) {
    std::vector<int> devices;
    auto& next = next_[at(instance_->mode_type[at(mode)])];
    for (int i = 0; i < count; ++i) devices.push_back(next++);
    return devices;
  }

 private:
  const Instance* instance_;
  std::vector<int> next_;
};

}  // namespace penstock::planner
