// Ending: how a pipeline's life goes to its end, and why.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "penstock/base/cache_line.h"
#include "penstock/base/result.h"
#include "penstock/pipeline/frame.h"

namespace penstock::pipeline {

/// A pipeline's life. It only goes forward, by Ending::advance() and replace().
enum class Life : std::uint8_t {
  kOpen,       ///< Takes frames.
  kClosed,     ///< Takes no more; those in flight finish.
  kCancelled,  ///< Takes no more; those in flight come out as cancelled.
  kStopping,   ///< Workers leave now, whatever is in flight.
};

/// Behind what a pipeline's frames fail.
enum class Cut : std::uint8_t {
  kHang,   ///< A call that hangs.
  kError,  ///< The first error, where errors stop the pipeline.
};

/// \threads  all functions from any thread.
class Ending {
 public:
  [[nodiscard]] bool closed() const { return life() >= Life::kClosed; }
  [[nodiscard]] bool cancelled() const { return life() >= Life::kCancelled; }
  [[nodiscard]] bool stopping() const { return life() >= Life::kStopping; }

  /// Goes on to `to`, unless the pipeline is there or further. No frame is committed meanwhile.
  /// `cause`: the error that ends it; the first one is kept. Empty: its owner's wish.
  void advance(Life to, Error cause = {});
  /// The frames from `first` on fail, as they are behind `cut` with its `cause`, and no more are
  /// taken. Of several cuts that of the earliest frames is kept. No frame is committed meanwhile.
  void cut(FrameNumber first, Cut cut, Error cause);

  /// Another generation takes the frames from now on. \pre  the caller has `commit`, and !closed()
  void replace();
  /// Whether it did: then the pipeline goes on behind this end.
  [[nodiscard]] bool replaced() const { return replaced_.load(std::memory_order_seq_cst); }

  /// What is told to those who come too late: the cause at its places, if there is one. \pre
  /// closed()
  [[nodiscard]] Error error() const;

  /// Behind what frames fail now. \pre  is_cut()
  [[nodiscard]] Cut what_cuts() const;
  /// What is told of a frame that fails() while !cancelled(): the cause of that at its places.
  /// kCancelled behind an error.
  [[nodiscard]] Error behind_cut() const;
  [[nodiscard]] bool fails(FrameNumber frame) const {
    return frame >= fails_from_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool is_cut() const { return fails(UINT64_MAX - 1); }
  [[nodiscard]] bool hangs() const { return hangs_.load(std::memory_order_relaxed); }

  /// Frames before this one are cancelled.
  void give_up_before(FrameNumber frame) { given_up_.store(frame, std::memory_order_release); }
  [[nodiscard]] bool given_up(FrameNumber frame) const {
    return frame < given_up_.load(std::memory_order_acquire);
  }

  /// Neither life nor a call that hangs nor its owner ends this frame.
  [[nodiscard]] bool spares(FrameNumber frame) const {
    return !cancelled() && !fails(frame) && !given_up(frame);
  }

  /// Held while a frame is committed: life goes on before it or after it.
  std::mutex commit;

 private:
  void go_on(Life to);  // The one that writes `life_`. Its caller has `commit`.
  [[nodiscard]] Life life() const { return life_.load(std::memory_order_seq_cst); }

  // Read for every frame, by every thread, and written seldom: of a cache line that is not
  // commit's.
  alignas(kCacheLine) std::atomic<Life> life_{Life::kOpen};
  std::atomic<bool> replaced_{false};
  std::atomic<FrameNumber> fails_from_{UINT64_MAX};
  std::atomic<bool> hangs_{false};  // Some call did.
  std::atomic<FrameNumber> given_up_{0};
  mutable std::mutex cause_mutex_;  // Guards `cause_`. Taken after `commit`, where both are.
  Error cause_;                     // Of no reason where there is none.
  Cut cut_ = Cut::kError;           // What the cause is of. Guarded by it, too.
};

}  // namespace penstock::pipeline
