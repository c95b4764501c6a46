// Request and Reply: what a client asks and what it gets, whichever protocol it speaks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "penstock/pipeline/frame.h"
#include "penstock/tensor/tensor.h"

namespace penstock::serve {

class ReplyCharge;

/// A parameter's value, of the kinds that the Open Inference Protocol has.
using Parameter = std::variant<bool, std::int64_t, std::uint64_t, double, std::string>;
using Parameters = std::map<std::string, Parameter>;

/// Where a tensor lies in a shared memory region that a client registered.
struct RegionPlace {
  std::string region;
  std::uint64_t offset = 0;     ///< Bytes, from the region's beginning.
  std::uint64_t byte_size = 0;  ///< Of the tensor, or at most for an output.
};

/// One input of a request: its bytes where the protocol's reader has put them, or their place in a
/// region.
struct RequestInput {
  std::string name;
  DType dtype = DType::kUndefined;
  std::vector<std::int64_t> dims;
  Tensor value;  ///< Of `dtype` and `dims`, and owns its memory; kNone where `place` is given.
  std::optional<RegionPlace> place;
};

/// One output that a request asks for.
struct RequestedOutput {
  std::string name;
  std::optional<RegionPlace> place;  ///< Empty: it comes in the reply.
  std::uint64_t classification = 0;  ///< > 0: so many highest values as "VALUE:INDEX" instead.
  bool binary = true;                ///< HTTP: behind the JSON instead of in it.
};

using SequenceId = std::variant<std::uint64_t, std::string>;

/// The sequence that a request is of; frames of one sequence share their states.
struct Sequence {
  SequenceId id;
  bool start = false;  ///< Its states begin anew with this request.
  bool end = false;    ///< It ends behind this request.
};

struct Request {
  std::string model;
  std::string version;  ///< Empty: the latest.
  std::string id;       ///< The client's own: given back.
  std::vector<RequestInput> inputs;
  std::size_t nameless = 0;  ///< Contents of tensors that came where `inputs` names none.
  std::vector<RequestedOutput> outputs;  ///< Empty: all, in the reply.
  std::optional<Sequence> sequence;
  pipeline::Priority priority = pipeline::Priority::kNormal;
  std::optional<std::chrono::steady_clock::time_point> deadline;
  Parameters parameters;    ///< Those that no field above holds.
  std::string traceparent;  ///< W3C trace context; empty: none came.
  /// By which it came, and by which its reply goes: its peer's address, unlike those of other
  /// connections; empty: by none, or it is not known.
  std::string connection;

  // For the statistics.
  std::chrono::steady_clock::time_point received = std::chrono::steady_clock::now();
  std::uint32_t copies = 0;  ///< Tensors that the protocol's reader copied.

  [[nodiscard]] bool uses_regions() const {
    const auto lies_there = [](const auto& tensor) { return tensor.place.has_value(); };
    return std::ranges::any_of(inputs, lies_there) || std::ranges::any_of(outputs, lies_there);
  }

  /// The client's patience, from the receipt on. 0, and more than a year: it has no end.
  void set_timeout(std::uint64_t microseconds) {
    constexpr std::uint64_t kLongest = std::uint64_t{1'000'000} * 3600 * 24 * 365;
    if (microseconds == 0 || microseconds > kLongest) return;
    deadline = received + std::chrono::microseconds(static_cast<std::int64_t>(microseconds));
  }
};

struct ReplyOutput {
  std::string name;
  Tensor value;  ///< Owns its memory; of a type and shape also where `place` is given.
  std::optional<RegionPlace> place;  ///< Its bytes were written there; byte_size says how many.
  bool binary = true;                ///< As asked.
};

struct Reply {
  std::string model;
  std::string version;
  std::string id;
  std::vector<ReplyOutput> outputs;  ///< In the model's order.
  /// What it has of the budget of unsent replies; null: nothing. Who makes bytes of outputs keeps
  /// it with them. Include reply_budget.h to use it.
  std::shared_ptr<ReplyCharge> charge = {};
};

}  // namespace penstock::serve
