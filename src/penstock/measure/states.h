// The states of a plan where no pipeline carries them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/package.h"

namespace penstock::measure {

/// What the next frame reads of each state.
class States {
 public:
  /// \error as plan::initial_value()
  static Result<States> create(const plan::Plan& plan, const std::filesystem::path& folder);

  /// The next frame reads the initial values.
  void begin_sequence() { values_ = initial_; }

  [[nodiscard]] const std::vector<plan::StateEdge>& edges() const { return edges_; }
  [[nodiscard]] const Tensor& value(std::size_t state) const { return values_[state]; }
  void set(std::size_t state, Tensor value) { values_[state] = std::move(value); }

 private:
  std::vector<plan::StateEdge> edges_;
  std::vector<Tensor> initial_, values_;
};

}  // namespace penstock::measure
