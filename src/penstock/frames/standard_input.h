// The values of one input from standard input.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/plan/plan.h"
#include "penstock/tensor/tensor.h"

namespace penstock::frames {

/// Either plain elements, one frame of the input's dtype and shape behind the other (the low byte
/// first), or .npy files so: the first bytes tell.
class StandardInput {
 public:
  /// \error kInvalidArgument  standard input is a terminal.
  static Result<StandardInput> open(plan::TensorInfo input);

  /// The next value. \returns nothing where it does not come within `patience` or so, a signal
  /// came, or the stream is at its end. \error kDataLoss, kInvalidArgument  names the input and the
  /// frame.
  Result<std::optional<Tensor>> read(std::chrono::milliseconds patience);

  [[nodiscard]] bool ended() const { return ended_; }

 private:
  enum class Form : std::uint8_t { kUnknown, kRaw, kNpy };
  /// What one read() of the system brought.
  enum class Came : std::uint8_t { kBytes, kNothing, kEnd };

  explicit StandardInput(plan::TensorInfo input) : input_(std::move(input)) {}
  [[nodiscard]] std::string place() const;
  Result<std::uint64_t> wanted_bytes();
  Result<Came> take_bytes(std::uint64_t most, std::chrono::milliseconds patience);
  Result<Tensor> to_tensor();

  plan::TensorInfo input_;
  Form form_ = Form::kUnknown;
  std::vector<std::byte> bytes_;  ///< Of the next value.
  std::uint64_t frame_ = 0;
  bool ended_ = false;
};

}  // namespace penstock::frames
