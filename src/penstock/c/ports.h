// The declared inputs or outputs of a plan as C reads them.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "penstock/c/penstock.h"
#include "penstock/plan/plan.h"

namespace penstock::c {

/// Owns what its ports point to.
class Ports {
 public:
  Ports() = default;
  explicit Ports(std::vector<plan::TensorInfo> infos);
  Ports(const Ports&) = delete;
  Ports(Ports&&) = default;
  Ports& operator=(const Ports&) = delete;
  Ports& operator=(Ports&&) = default;
  ~Ports() = default;

  [[nodiscard]] std::size_t size() const { return ports_.size(); }
  /// Null past the end.
  [[nodiscard]] const penstock_port* at(std::size_t index) const {
    return index < ports_.size() ? &ports_[index] : nullptr;
  }

 private:
  std::vector<plan::TensorInfo> infos_;
  std::deque<std::vector<penstock_dim>> dims_;
  std::vector<penstock_port> ports_;
};

}  // namespace penstock::c
