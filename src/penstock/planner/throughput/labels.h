// Labels: how the stages of an ideal can use the devices.
// Of each ideal only those labels are kept that no other beats.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "penstock/planner/problem/index.h"
#include "penstock/planner/problem/instance.h"

namespace penstock::planner {

/// Counts of devices by type in one word, each with a spare bit, so that all are compared at once.
class CountWord {
 public:
  explicit CountWord(const Instance& instance);

  [[nodiscard]] bool possible() const { return bits_ <= 64; }
  [[nodiscard]] std::uint64_t one(int type) const { return std::uint64_t{1} << shift_[at(type)]; }
  [[nodiscard]] int count(std::uint64_t word, int type) const {
    return static_cast<int>(word >> shift_[at(type)] & mask_[at(type)]);
  }
  /// Whether `a` uses no more devices of any type than `b`.
  [[nodiscard]] bool within(std::uint64_t a, std::uint64_t b) const {
    return (((b | spare_) - a) & spare_) == spare_;
  }

 private:
  int bits_ = 0;
  std::uint64_t spare_ = 0;
  std::vector<int> shift_;
  std::vector<std::uint64_t> mask_;
};

struct Label {
  std::uint64_t used = 0;  ///< A CountWord.
  int ideal = 0;
  int parent = -1;  ///< Label of the ideal before the last stage,
  int mode = 0;     ///< its mode
  int replicas = 1;
  int next = -1;  ///< Another label of this ideal.
  int ready = 0;  ///< With a latency cap: into LabelStore::times.
};

class LabelStore {
 public:
  explicit LabelStore(const CountWord& counts) : counts_(&counts) {}

  /// Adds a label, whose `count` ready times are the last of `times`, unless another is as good in
  /// all; removes those that it beats. Tells whether it stayed; its times go if not.
  bool add(const Label& label, int count);
  /// The first label of an ideal; -1: none.
  [[nodiscard]] int first(int ideal) const {
    return at(ideal) < first_.size() ? first_[at(ideal)] : -1;
  }
  [[nodiscard]] const Label& operator[](int label) const { return labels_[at(label)]; }
  [[nodiscard]] int size() const { return static_cast<int>(labels_.size()); }

  std::vector<double> times;  ///< When values that leave the label's ideal are ready.

 private:
  [[nodiscard]] bool beats(const Label& a, const Label& b, int count) const;

  const CountWord* counts_;
  std::vector<Label> labels_;
  std::vector<int> first_;  ///< [ideal]
};

}  // namespace penstock::planner
