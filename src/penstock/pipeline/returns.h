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
    bool begun = false;     ///< Its slots are held already.
    Edge* again = nullptr;  ///< Not null: only what it wrote there is to be made again (Remakes).
  };

  /// Frames come back from now on, each at most `tries` times by give(). `window`: as of Progress.
  /// `edges`: that may ask for a frame again.
  void configure(std::size_t window, std::size_t edges, std::uint8_t tries) {
    enabled_ = true;
    tries_ = tries;
    tried_.assign(window, 0);
    frames_.reserve(window * (1 + edges));
  }
  /// Where an instance sleeps that may take frames which come back.
  void add(Parker& parker) { parkers_.push_back(&parker); }
  [[nodiscard]] bool enabled() const { return enabled_; }

  /// The frame is new, and has all its tries before it. \pre  nobody has it
  void begin(FrameNumber frame) {
    if (tries_ > 0) tried_[frame & (tried_.size() - 1)] = 0;
  }
  /// The frame comes back, and the instances are woken. False: it came back `tries` times before,
  /// and stays with who has it.
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
  /// The earliest frame that came back, if its number is below `end`; it is the caller's then.
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
  std::vector<Parker*> parkers_;       // Of the stage's instances, where they sleep.
  std::atomic<std::size_t> count_{0};  // frames_.size(), for who looks without the lock.
  std::mutex mutex_;                   // Guards frames_ and tried_.
  std::vector<Taken> frames_;          // That came back and that nobody has taken yet.
  std::vector<std::uint8_t> tried_;    // By frame & (window - 1): how often it was given back.
};

}  // namespace penstock::pipeline
