// What both ends of penstock.worker (worker.proto) agree on besides its messages.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::grpc {

/// Of worker.proto. Another number where a message changes its meaning: ends of unlike numbers do
/// not talk.
inline constexpr std::uint32_t kWorkerProtocol = 2;

/// Of worker::RunRequest, RunResponse, and the pieces of PullResponse and Echo: bytes of tensors,
/// written last.
inline constexpr int kRawField = 15;

/// Good for the pieces of contents and of echoes, and the most of a tensor's.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
/// Of a tensor's pieces: a slow link brings one in time too.
inline constexpr std::size_t kLeastPieceBytes = std::size_t{64} << 10;

}  // namespace penstock::grpc
