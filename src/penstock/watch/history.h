// History: the samples and failures that are remembered, and what a listener lacks of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "penstock/watch/samples.h"

namespace penstock::watch {

/// Of a long run the older samples are further apart, and the oldest failures only a number.
///
/// \threads  one at a time.
class History {
 public:
  struct Text {
    std::uint64_t number;  ///< The sample's, or that of the sample that saw the failure.
    std::string json;
  };

  void keep(const Sample& sample);
  /// Another plan begins. Failures stay.
  void forget_samples();

  /// The samples behind the one numbered `after`, oldest first, with `failures` and `missed`. Where
  /// they have more than `most_bytes`, the newest; failures of those left out count as missed.
  [[nodiscard]] std::vector<Text> since(std::uint64_t after,
                                        std::size_t most_bytes = SIZE_MAX) const;

  // As JSON.
  [[nodiscard]] std::string samples() const;  ///< All, without failures.
  [[nodiscard]] std::string last() const;     ///< The newest sample; null: there is none.
  [[nodiscard]] std::string failures(std::size_t most = SIZE_MAX) const;  ///< The last ones.
  [[nodiscard]] std::uint64_t missed() const { return failed_ - failures_.size(); }

 private:
  struct Kept : Text {
    std::uint64_t failed;  ///< Frames, from the begin to this sample.
  };
  void thin_out();

  std::vector<Kept> samples_;
  std::deque<Text> failures_;
  std::uint64_t failed_ = 0;
  std::uint64_t failed_before_ = 0;  ///< The first of the samples.
};

}  // namespace penstock::watch
