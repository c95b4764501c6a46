// The states of a plan where no pipeline carries them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/package.h"

namespace penstock::measure {

/// Whether the size of a state may change from frame to frame, as a cache grows.
bool have_open_states(const plan::Plan& plan);

/// What the next frame of each stream reads of each state.
class States {
 public:
  /// \error as plan::initial_value()
  static Result<States> create(const plan::Plan& plan, const std::filesystem::path& folder);

  /// The next frame of each stream reads the initial values.
  void begin_sequence() {
    values_.clear();
    choose_stream(0);
  }
  /// Which value() and set() are of.
  void choose_stream(std::uint64_t stream) {
    values_.try_emplace(stream, initial_);
    stream_ = stream;
  }

  [[nodiscard]] const std::vector<plan::StateEdge>& edges() const { return edges_; }
  [[nodiscard]] const Tensor& value(std::size_t state) const { return values_.at(stream_)[state]; }
  void set(std::size_t state, Tensor value) { values_.at(stream_)[state] = std::move(value); }

 private:
  std::vector<plan::StateEdge> edges_;
  std::vector<Tensor> initial_;
  std::map<std::uint64_t, std::vector<Tensor>> values_;  ///< By stream.
  std::uint64_t stream_ = 0;
};

}  // namespace penstock::measure
