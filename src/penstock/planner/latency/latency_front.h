// LatencyFront: an ideal that is expanded, and what has been added to it since.
#pragma once

#include <cstdint>
#include <vector>

#include "penstock/planner/latency/latency_ideals.h"

namespace penstock::planner {

struct LatencyFront {
  static constexpr int kOutside = -1, kInCall = -2;

  LatencyFront(const LatencyModel& model, const LatencyIdeals& ideals);

  /// Stands at another ideal.
  void enter(int ideal);
  /// Adds a block, or takes it out again.
  void add(int block) { change(block, 1); }
  void remove(int block) { change(block, -1); }

  [[nodiscard]] bool has(int block) const;
  /// Whether all before the block are there.
  [[nodiscard]] bool ready(int block) const;
  [[nodiscard]] std::vector<int> available() const;
  /// A label of the ideal `to` that follows `parent`, one of this ideal.
  [[nodiscard]] LatencyLabel follow(int parent, int to, int call) const;
  /// When a group of the border ended.
  [[nodiscard]] double end(int label, int border) const {
    return ideals.label(label).end[static_cast<std::size_t>(border)];
  }

  const LatencyModel& model;
  const LatencyIdeals& ideals;
  int ideal = 0;
  std::vector<int> labels;  ///< Of the ideal.
  std::vector<int> place;   ///< [group] Of the ideal's border, or kOutside, or kInCall.
  std::vector<std::uint64_t> blocks;
  std::uint64_t key = 0;
  int size = 0;

 private:
  void change(int block, int more);
  std::vector<int> border_;
};

}  // namespace penstock::planner
