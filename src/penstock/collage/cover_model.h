// The cover problem as its search reads it: checked, and with all that does not change looked up.
// Internal to collage.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "penstock/collage/cover.h"

namespace penstock::collage {

/// What a cover costs; of equal seconds the fewer parts win.
struct Cost {
  double seconds = 0;
  int parts = 0;
  auto operator<=>(const Cost&) const = default;
};

/// A candidate of finite cost.
struct Part {
  int candidate = 0;
  int place = 0;    ///< Among CoverModel's.
  double cost = 0;  ///< With handing over the network's outputs that it makes.
  NodeSet nodes;
  NodeSet before;          ///< Nodes outside that make what it reads.
  std::vector<int> reads;  ///< Values from outside.
  std::vector<int> makes;  ///< Values that somebody outside reads.
  std::uint64_t key = 0;   ///< Of a set of parts: the sum of theirs.
};

/// A value that is still to be read, as far as it decides what that will cost.
struct Live {
  int value = 0;
  int place = 0;             ///< Where it was made; of places that cost the same, the first.
  std::uint64_t handed = 0;  ///< The places that it has been handed to.
  bool operator==(const Live&) const = default;
};

/// What a partial cover looks like from what follows. Covered nodes have all their producers
/// covered, so that parts, in the order in which they were added, never wait for a later one.
struct State {
  NodeSet covered;
  std::vector<Live> live;  ///< Ascending by value.
  bool operator==(const State&) const = default;
};

class CoverModel {
 public:
  /// \error kInvalidArgument  as find_covers()
  static Result<CoverModel> create(const CoverProblem& problem);

  [[nodiscard]] std::size_t nodes() const { return nodes_; }
  [[nodiscard]] const std::vector<Part>& parts() const { return parts_; }
  [[nodiscard]] const std::vector<int>& parts_with(std::size_t node) const {
    return parts_with_[node];
  }
  [[nodiscard]] int part_of(int candidate) const {
    return part_of_[static_cast<std::size_t>(candidate)];  ///< -1: not usable.
  }
  [[nodiscard]] State start() const;
  [[nodiscard]] bool done(const State& state) const { return state.covered.first_hole() >= nodes_; }
  /// The parts of which one comes next, in some order of every cover that begins with `state`.
  [[nodiscard]] std::vector<int> next(const State& state) const;
  /// Covers a part whose producers are covered, none of whose nodes is. \returns its seconds, all
  /// that is handed to it included; empty where something cannot be.
  [[nodiscard]] std::optional<double> add(State& state, const Part& part) const;
  /// No way to cover the rest costs less.
  [[nodiscard]] double bound(const State& state) const;
  /// As evaluate_cover().
  [[nodiscard]] Result<Cover> evaluate(std::vector<int> candidates) const;
  /// kNotFound: why no cover exists, as far as can be told.
  [[nodiscard]] Error why_none(const NodeSet& reached) const;
  [[nodiscard]] std::string name_of(std::size_t node) const;

 private:
  void set_places();
  [[nodiscard]] Part part_of_candidate(int c);
  void set_parts();
  void set_prices();
  void set_hand_overs();
  [[nodiscard]] double hand_over(int value, int from, int to) const;
  void remember(std::vector<Live>& live, Live entry) const;

  const CoverProblem* problem_ = nullptr;
  std::size_t nodes_ = 0;
  std::vector<Place> places_;  // The first is outside of the network.
  std::vector<Part> parts_;
  std::vector<int> part_of_;
  std::vector<std::vector<int>> parts_with_;
  std::vector<NodeSet> consumers_;      // By value.
  std::vector<double> hand_overs_;      // [value][from][to]
  std::vector<std::uint64_t> readers_;  // Places of the parts that read a value.
  std::vector<int> same_;               // [value][place]: the first place that costs the same.
  bool negative_ = false;               // Some transition is.
  std::vector<double> prices_;          // By node: no part costs less than its nodes together.
};

}  // namespace penstock::collage
