// Sequences: which stream of a pipeline each request's frame is of.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/serve/request.h"

namespace penstock::serve {

/// Frames of one stream come out in the order of their requests, and share the states. A request
/// of no sequence is a sequence of its own: nobody waits for it, and it begins with the model's
/// first states.
/// \threads  all functions may be called from any thread.
class Sequences {
 public:
  struct Options {
    bool has_states = false;
    std::size_t most = 64;                   ///< With states: streams at a time.
    std::chrono::nanoseconds idle_after{0};  ///< Then a sequence makes room for another one.
    /// Of the pipeline: false where it cannot be done now. Numbers do not come again.
    std::function<bool(std::uint64_t stream)> end_stream;
  };
  /// Streams that are over while the pipeline does not know it yet: it takes so many more.
  static constexpr std::size_t kMostEnding = 16;

  explicit Sequences(Options options) : options_(std::move(options)) {}

  struct Lane {
    std::uint64_t stream = 0;
    std::optional<SequenceId> id;
    std::size_t requests = 0;  // In progress.
    bool begun = false;        // A request was a frame.
    bool ending = false;       // The request that ends it is in progress.
    bool ended = false;
    std::chrono::steady_clock::time_point used;
  };

  /// The lane of a request, until leave().
  /// \error kInvalidArgument    with states: the sequence has not been started.
  /// \error kResourceExhausted  with states: so many are open.
  Result<std::shared_ptr<Lane>> enter(const std::optional<Sequence>& sequence);
  enum class Left : std::uint8_t {
    kFrame,    ///< The pipeline took it.
    kRefused,  ///< It was not taken: its client may try again.
    kGivenUp,  ///< Nor this, as its client cancelled it or waited no longer.
  };
  /// `last`: the request said that it ends its sequence; so it does, unless it was refused.
  void leave(const std::shared_ptr<Lane>& lane, bool last, Left left);

  /// Ends streams that are over. \returns whether none is left.
  bool end_streams();

 private:
  std::shared_ptr<Lane> open(const std::optional<SequenceId>& id);
  void close(const std::shared_ptr<Lane>& lane);
  void leave_states(const std::shared_ptr<Lane>& lane, bool last, Left left);
  void end(const Lane& lane);
  bool has_room();
  void end_over();

  const Options options_;
  std::mutex mutex_;  // Guards all below.
  std::map<SequenceId, std::shared_ptr<Lane>> by_id_;
  std::vector<std::uint64_t> free_;  // Numbers, without states.
  std::vector<std::uint64_t> over_;  // To be ended, with states.
  std::uint64_t next_ = 1;
  std::size_t open_ = 0;
};

}  // namespace penstock::serve
