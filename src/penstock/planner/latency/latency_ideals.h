// LatencyIdeals: the ideals that a latency search has met, each with its labels.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "penstock/planner/latency/latency_tails.h"

namespace penstock::planner {

/// One way to have run an ideal.
struct LatencyLabel {
  int code = 0;      ///< Devices used.
  double done = 0;   ///< When the last group so far ends.
  double bound = 0;  ///< No split that begins so ends earlier.
  int ideal = 0, parent = -1, call = -1;
  std::vector<double> end;  ///< Of each group of the ideal's border: see normalise().
};

/// Blocks closed under "before".
struct LatencyIdeal {
  std::vector<std::uint64_t> blocks;  ///< Bits.
  std::uint64_t key = 0;
  int size = 0;
  std::vector<int> border;  ///< Groups inside with followers outside.
  struct Exit {
    int place, edge;  ///< Of the border; of LatencyModel::earlier.
  };
  std::vector<Exit> exits;  ///< Pairs that cross the border.
  /// [border] For each reader outside, as bits, the border's groups that it waits for anyway.
  std::vector<std::vector<std::uint64_t>> waits;
  std::vector<int> labels;  ///< None dominated.
  [[nodiscard]] bool has(int block) const {
    const auto b = static_cast<unsigned>(block);
    return ((blocks[b / 64] >> (b % 64)) & 1U) != 0;
  }
};

class LatencyIdeals {
 public:
  LatencyIdeals(const LatencyModel& model, const LatencyTails& tails, double limit);

  /// The ideal with these blocks, made where it is new. `key`: exclusive or of its blocks' keys.
  int find(const std::vector<std::uint64_t>& blocks, std::uint64_t key, int size);
  /// Keeps the label if it may end below the limit and none dominates it. Its bound is filled in.
  bool put(LatencyLabel label);

  [[nodiscard]] const LatencyIdeal& ideal(int i) const { return ideals_[i_(i)]; }
  [[nodiscard]] const LatencyLabel& label(int i) const { return labels_[i_(i)]; }
  [[nodiscard]] const std::vector<int>& of_size(int size) const { return of_size_[i_(size)]; }
  [[nodiscard]] std::uint64_t key(int block) const { return keys_[i_(block)]; }
  [[nodiscard]] double limit() const { return limit_; }
  [[nodiscard]] int last_label() const { return static_cast<int>(labels_.size()) - 1; }
  [[nodiscard]] bool full() const;  ///< More would cost too much memory.
  void lower_limit(double limit) { limit_ = limit < limit_ ? limit : limit_; }
  /// Whether a split that ends then is no better than the limit.
  [[nodiscard]] bool too_late(double end) const;
  /// The least bound of the labels of ideals of `size` from number `first` on, and of all larger.
  [[nodiscard]] double open_bound(int size, std::size_t first) const;

 private:
  static std::size_t i_(int i) { return static_cast<std::size_t>(i); }
  void put_border(LatencyIdeal& ideal) const;
  void normalise(const LatencyIdeal& ideal, LatencyLabel& label) const;
  [[nodiscard]] bool dominates(const LatencyLabel& a, const LatencyLabel& b) const;

  const LatencyModel& model_;
  const LatencyTails& tails_;
  BitRows ancestors_;
  double limit_;
  std::vector<LatencyIdeal> ideals_;
  std::vector<LatencyLabel> labels_;
  std::vector<std::vector<int>> of_size_;
  std::vector<std::uint64_t> keys_;
  std::unordered_multimap<std::uint64_t, int> by_key_;
  std::size_t numbers_ = 0;  // Held by labels and ideals.
};

}  // namespace penstock::planner
