// Returns: frames that an instance of a stage has taken and cannot compute, as its device is lost.
// They stay here until another instance takes them. So do frames that come back for another reason
// (see Remakes).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "penstock/pipeline/parker.h"
#include "penstock/pipeline/progress.h"

namespace penstock::pipeline {

class Edge;

/// \threads  any, but configure() and add().
class Returns {
 public:
  struct Taken {
    FrameNumber frame = 0;
    bool begun = false;  ///< Its slots are held already.
    Edge* again =
        nullptr;  ///< The stage is through with it, but for what it wrote there: see Remakes.
  };

  /// Frames come back from now on, each at most `tries` times by give(). `window`: as of Progress.
  void configure(std::size_t window, std::uint8_t tries) {
    enabled_ = true;
    tries_ = tries;
    tried_.assign(window, 0);
    frames_.reserve(window);
  }
  void add(Parker& parker) { parkers_.push_back(&parker); }  ///< Of an instance.
  [[nodiscard]] bool enabled() const { return enabled_; }

  /// The frame is new: none of its tries was made. \pre  nobody has it
  void begin(FrameNumber frame) {
    if (tries_ > 0) tried_[frame & (tried_.size() - 1)] = 0;
  }
  /// Wakes the instances. False: it was tried too often, and stays with who has it.
  bool give(Taken frame) {
    {
      const std::scoped_lock lock(mutex_);
      auto& tried = tried_[frame.frame & (tried_.size() - 1)];
      if (tried >= tries_) return false;
      ++tried;
    }
    bring(frame);
    return true;
  }
  /// The frame comes back, however often it did. Wakes the instances.
  void bring(Taken frame) {
    {
      const std::scoped_lock lock(mutex_);
      frames_.push_back(frame);
      count_.store(frames_.size(), std::memory_order_seq_cst);
    }
    wake();
  }
  /// The first of those before `end`.
  std::optional<Taken> take(FrameNumber end = UINT64_MAX) {
    if (empty()) return std::nullopt;
    const std::scoped_lock lock(mutex_);
    const auto first = std::ranges::min_element(frames_, {}, &Taken::frame);
    if (first == frames_.end() || first->frame >= end) return std::nullopt;
    const Taken taken = *first;
    frames_.erase(first);
    count_.store(frames_.size(), std::memory_order_seq_cst);
    return taken;
  }
  [[nodiscard]] bool empty() const { return count_.load(std::memory_order_seq_cst) == 0; }
  void wake() const {
    for (Parker* parker : parkers_) parker->wake();
  }

 private:
  bool enabled_ = false;
  std::uint8_t tries_ = 0;
  std::vector<Parker*> parkers_;
  std::atomic<std::size_t> count_{0};  // frames_.size()
  std::mutex mutex_;                   // Guards the two below.
  std::vector<Taken> frames_;
  std::vector<std::uint8_t> tried_;
};

}  // namespace penstock::pipeline
