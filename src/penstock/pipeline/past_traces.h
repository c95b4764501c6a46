// PastTraces: what plans did that others have taken the place of, as far as a trace holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "penstock/pipeline/state.h"
#include "penstock/pipeline/trace_content.h"

namespace penstock::pipeline {

/// The last plans whose stages had at least so many frames as a trace keeps of one stage: what is
/// older is lost, as it is where one plan goes on. \threads  any; replace() alone changes it.
class PastTraces {
 public:
  /// add() then needs no memory.
  void make_room();
  /// A plan that keeps spans, and that another one takes the place of now.
  void add(std::shared_ptr<State> replaced);
  /// Of those that `is_over` the spans are kept alone, and all else is freed. `spans_kept`: as
  /// Options::spans_kept.
  void settle(std::size_t spans_kept, const std::function<bool(const State&)>& is_over);

  struct Found {
    std::vector<TraceContent> plans;  ///< Oldest first.
    std::uint64_t lost = 0;           ///< Spans of theirs, and of older ones, that are not there.
  };
  /// `but`: it is left out, where it is among them.
  [[nodiscard]] Found all_but(const State* but) const;

 private:
  void drop_oldest(std::size_t spans_kept);

  mutable std::mutex mutex_;                    // Guards all below.
  std::vector<std::shared_ptr<State>> recent_;  // Behind those of `settled_`; may still be at work.
  std::vector<std::shared_ptr<const TraceContent>> settled_;
  std::uint64_t lost_ = 0;  // Of plans that are dropped.
};

}  // namespace penstock::pipeline
