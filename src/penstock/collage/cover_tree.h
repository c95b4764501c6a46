// The partial covers that a search has reached. Internal to collage.
#pragma once

#include <unordered_set>
#include <vector>

#include "penstock/collage/cover_model.h"

namespace penstock::collage {

/// One way to a state.
struct Step {
  int state = 0;
  int part = -1;          ///< The part added last; -1: none, the start.
  int parent = -1;        ///< The step before.
  Cost cost;              ///< So far.
  double bound = 0;       ///< No cover that continues this one costs less.
  std::uint64_t key = 0;  ///< Of the set of its parts.
};

/// All steps, at most the K cheapest different ones to each state: K best paths, of which those
/// that only differ in the order of their parts are one.
class CoverTree {
 public:
  CoverTree(const CoverModel& model, int covers);

  [[nodiscard]] const Step& step(int id) const { return steps_[static_cast<std::size_t>(id)]; }
  [[nodiscard]] const State& state_of(int id) const { return record_of(id).state; }
  [[nodiscard]] std::size_t size() const { return steps_.size(); }
  /// Whether K cheaper steps to its state were found after it.
  [[nodiscard]] bool stale(int id) const;
  /// The step `id` and the part, unless it is impossible, known, or not among the K cheapest.
  /// \returns its number, or -1.
  int extend(int id, int part);
  [[nodiscard]] std::vector<int> candidates_of(int id) const;

 private:
  struct Record {
    State state;
    double bound = 0;
    std::vector<std::pair<Cost, std::uint64_t>> best;  ///< Ascending; at most K.
  };
  struct Hash {
    const std::vector<Record>* records;
    std::size_t operator()(int id) const;
  };
  struct Equal {
    const std::vector<Record>* records;
    bool operator()(int a, int b) const;
  };

  [[nodiscard]] const Record& record_of(int id) const {
    return records_[static_cast<std::size_t>(step(id).state)];
  }
  int intern(State state);
  bool admit(Record& record, const Cost& cost, std::uint64_t key) const;

  const CoverModel* model_;
  std::size_t covers_;
  std::vector<Step> steps_;
  std::vector<Record> records_;
  std::unordered_set<int, Hash, Equal> ids_;
};

}  // namespace penstock::collage
