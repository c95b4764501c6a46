// Pace: how large the pieces of a tensor are to be that comes by a connection.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "penstock/grpc/client/worker_protocol.h"

namespace penstock::grpc {

/// Each piece costs both ends CPU time, and only whole pieces tell a reader that its peer lives:
/// one is to be as large as comes within 10 ms. Any thread; copies share what they were told.
class Pace {
 public:
  /// Of the next tensor: from kLeastPieceBytes, also where nothing has come yet, to kPieceBytes.
  [[nodiscard]] std::uint32_t piece_bytes() const { return *piece_bytes_; }

  /// So many bytes have come in so long. A piece becomes twice as large at most, as what comes
  /// first may have waited in a buffer on the way.
  void saw(std::size_t bytes, double seconds) {
    if (seconds <= 0) return;
    constexpr double kSeconds = 0.01;
    const double piece = static_cast<double>(bytes) / seconds * kSeconds;
    const double most = std::min(2.0 * piece_bytes(), static_cast<double>(kPieceBytes));
    *piece_bytes_ =
        static_cast<std::uint32_t>(std::clamp(piece, static_cast<double>(kLeastPieceBytes), most));
  }
  /// A tensor did not come whole: the link may carry less than it did.
  void failed() { *piece_bytes_ = kLeastPieceBytes; }

 private:
  std::shared_ptr<std::atomic<std::uint32_t>> piece_bytes_ =
      std::make_shared<std::atomic<std::uint32_t>>(kLeastPieceBytes);
};

}  // namespace penstock::grpc
