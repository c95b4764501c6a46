// Remakes: tensors of an edge that were lost, until the stage that made them makes them again.
#pragma once

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "penstock/pipeline/progress.h"
#include "penstock/pipeline/returns.h"

namespace penstock::pipeline {

/// The stage that made a frame's tensors gets the frame back, writes them anew in the same slot,
/// and hands the frame to the stages that asked. Nobody reads that slot meanwhile: who asks waits
/// until other readers of the frame are done with it, and who comes to read waits as who asked.
/// \threads  any, but configure().
class Remakes {
 public:
  /// `maker`: of the stage that writes `edge`, which these are of. `window`: as of Progress.
  /// `readers`: stages that read it. `tries`: how often the tensors of one frame are made again.
  void configure(Edge& edge, Returns& maker, std::size_t window, std::size_t readers,
                 std::uint8_t tries) {
    edge_ = &edge;
    maker_ = &maker;
    tries_ = tries;
    entries_.resize(window);
    for (auto& entry : entries_) entry.waiting.reserve(readers);
  }

  /// A reader begins with the frame, and ends by leave() or lose(). False: it is made again, and
  /// then the frame comes to `reader` as `taken`.
  bool enter(Returns& reader, const Returns::Taken& taken) {
    const std::scoped_lock lock(mutex_);
    Entry& entry = entry_of(taken.frame);
    if (std::exchange(entry.frame, taken.frame) != taken.frame) entry.tried = 0;
    if (!entry.waiting.empty()) {
      entry.waiting.push_back({&reader, taken});
      return false;
    }
    ++entry.reading;
    return true;
  }

  /// Another instance may have the frame already, and may even be through with it.
  void leave(FrameNumber frame) { done(entry_of(frame)); }

  /// The reader found the tensors lost: as enter() that says false. False here: they were made
  /// again too often, and the reader is to leave().
  bool lose(Returns& reader, const Returns::Taken& taken) {
    Entry& entry = entry_of(taken.frame);
    {
      const std::scoped_lock lock(mutex_);
      if (entry.tried >= tries_) return false;
      entry.waiting.push_back({&reader, taken});
    }
    done(entry);
    return true;
  }

  /// The maker is done with the frame, whether it could make them again or not: a reader sees.
  void made(FrameNumber frame) { give_back(entry_of(frame)); }

 private:
  struct Waiting {
    Returns* reader = nullptr;
    Returns::Taken taken;
  };
  struct Entry {
    FrameNumber frame = UINT64_MAX;
    int reading = 0;
    std::uint8_t tried = 0;
    std::vector<Waiting> waiting;  // With room for each reader.
  };

  // A frame's readers have it between the first enter() and the end of the last: so long it has
  // its place alone.
  Entry& entry_of(FrameNumber frame) { return entries_[frame & (entries_.size() - 1)]; }

  // A reader that handed its frame on may leave late: then the place is a later frame's, which
  // waits for it too.
  void done(Entry& entry) {
    bool asks = false;
    FrameNumber frame = 0;
    {
      const std::scoped_lock lock(mutex_);
      if (--entry.reading > 0 || entry.waiting.empty()) return;
      frame = entry.waiting.front().taken.frame;
      if (entry.tried < tries_) {
        ++entry.tried;
        asks = true;
      }
    }
    if (!asks) return give_back(entry);
    maker_->begin(frame);
    maker_->bring({frame, true, edge_});
  }

  void give_back(Entry& entry) {
    const std::scoped_lock lock(mutex_);
    for (const auto& [reader, taken] : entry.waiting) reader->bring(taken);
    entry.waiting.clear();
  }

  Edge* edge_ = nullptr;
  Returns* maker_ = nullptr;
  std::uint8_t tries_ = 0;
  std::mutex mutex_;  // Guards the entries.
  std::vector<Entry> entries_;
};

}  // namespace penstock::pipeline
