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

/// Good for the pieces of contents and of echoes.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

}  // namespace penstock::grpc
