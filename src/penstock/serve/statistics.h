// Statistics of a model that is served, with Triton's names and meaning.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/pipeline/stats.h"

namespace penstock::serve {

struct Duration {
  std::uint64_t count = 0;
  std::uint64_t ns = 0;  ///< Of all together.
};

/// Why a request failed: Triton's label `reason`.
enum class Failure : std::uint8_t { kRejected, kCancelled, kBackend, kOther };
inline constexpr std::size_t kFailures = 4;
/// "REJECTED", "CANCELED", "BACKEND", "OTHER"
std::string_view to_string(Failure failure);

/// Calls of the first stage that held so many frames.
struct BatchStatistics {
  std::uint64_t batch_size = 1;
  Duration compute_input;  ///< Gathering their inputs. Of each call, as what follows.
  Duration compute_infer, compute_output;
};

/// Since the model was loaded; `replace` does not begin anew.
struct ModelStatistics {
  std::string name, version;
  std::uint64_t last_inference_ms = 0;  ///< Since 1970.
  std::uint64_t inferences = 0;         ///< Frames computed.
  std::uint64_t executions = 0;  ///< Calls of the first stage: fewer where frames shared one.
  Duration success;              ///< From the request's arrival to its reply.
  Duration fail;
  Duration queue;           ///< Until the frame was pushed. As many as `success`.
  Duration compute_input;   ///< Reading the request, and copies. As many as `success`.
  Duration compute_infer;   ///< In the pipeline. As many as `success`.
  Duration compute_output;  ///< Making the reply, and copies. As many as `success`.
  std::array<std::uint64_t, kFailures> failures{};  ///< By Failure; their sum is fail.count.
  std::vector<BatchStatistics> batches;
  std::uint64_t pending = 0;       ///< Requests in progress now; those that wait too.
  std::uint64_t waiting = 0;       ///< Of them, for room in the pipeline.
  std::uint64_t copies = 0;        ///< Tensors copied between the wire or regions and the pipeline.
  std::uint64_t memory_bytes = 0;  ///< Of the pipeline's edges; 0: not known.
  double load_seconds = 0;         ///< How long the last load took.
  pipeline::Stats pipeline;        ///< Of its stages and edges.
};

/// How long a request's parts took.
struct Times {
  std::chrono::nanoseconds input{0}, queue{0}, infer{0}, output{0}, all{0};
};

/// \threads  all functions may be called from any thread.
class Recorder {
 public:
  void succeed(const Times& times, std::uint64_t copies);
  /// `as_frame`: in the pipeline. Else it never came there, or its outputs found no place.
  void fail(const Error& error, bool as_frame, std::chrono::nanoseconds all);
  /// Into the fields that it knows.
  void read(ModelStatistics& statistics) const;

 private:
  mutable std::mutex mutex_;  // Guards all below.
  ModelStatistics counted_;
};

}  // namespace penstock::serve
