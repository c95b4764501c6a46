// ReleaseWatch: whether stages wait for results to be released while nobody pops any.
#pragma once

#include <cstdint>

#include "penstock/pipeline/frame.h"

namespace penstock::pipeline {

/// Only a pipeline with an edge that drops frames takes more than the output edge holds. Looks that
/// follow one another within kGap are of one wait, whichever call they are of: who drains in short
/// slices, to look at signals in between, learns the same as who drains in one call.
class ReleaseWatch {
 public:
  static constexpr std::int64_t kLook = 250'000'000;  ///< Nanoseconds between two looks.
  static constexpr std::int64_t kPatience = 1'000'000'000;
  static constexpr std::int64_t kGap = 2 * kLook;

  /// `popped`, `released`: results so far. `awaiting`: stages that wait for one to be released.
  bool stuck(std::uint64_t popped, FrameNumber released, int awaiting, std::int64_t now) {
    const bool moved = popped != popped_ || released != released_;
    if (moved || awaiting == 0 || now - looked_ > kGap) since_ = now;
    popped_ = popped;
    released_ = released;
    looked_ = now;
    return now - since_ > kPatience;
  }

 private:
  std::uint64_t popped_ = 0;
  FrameNumber released_ = 0;
  std::int64_t since_ = 0, looked_ = -kGap - 1;
};

}  // namespace penstock::pipeline
