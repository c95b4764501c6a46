// Polls and reads the descriptor until a value is whole, raw or .npy, and makes its tensor.
#include "penstock/frames/standard_input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "penstock/base/option_name.h"
#include "penstock/base/words.h"
#include "penstock/frames/values.h"
#include "penstock/tensor/npy.h"

namespace penstock::frames {
namespace {

constexpr std::uint64_t kAtOnce = 1U << 20U;  // Bytes; a false header's length is never allocated.
constexpr std::size_t kMagicBytes = 6;

std::vector<std::int64_t> sizes_of(const Type& type) {
  std::vector<std::int64_t> sizes;
  sizes.reserve(type.dims.size());
  for (const auto& dim : type.dims) sizes.push_back(dim.size);
  return sizes;
}

/// A file that was piped as it is; numbers that happen to begin so are next to impossible. Empty:
/// it is none of those.
std::string_view kind_of_file(std::span<const std::byte> bytes) {
  const auto begins = [&](std::string_view magic) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
  };
  if (begins("PK\x03\x04")) return "a .npz or another zip";
  if (begins("\x89PNG\r\n")) return "a PNG picture";
  return begins("RIFF") ? "a .wav" : "";
}

}  // namespace

Result<StandardInput> StandardInput::open(plan::TensorInfo input) {
  if (::isatty(STDIN_FILENO) == 1) {
    return invalid_argument("standard input is a terminal: expected frames from a pipe or a file")
        .within({Where::kInput, input.name});
  }
  return StandardInput(std::move(input));
}

std::string StandardInput::place() const {
  return concat("input '", input_.name, "': standard input: frame ", frame_);
}

/// How many bytes the next value has, or must have before more is known.
Result<std::uint64_t> StandardInput::wanted_bytes() {
  if (form_ == Form::kUnknown) {
    if (!may_begin_npy(bytes_)) {
      form_ = Form::kRaw;
    } else if (bytes_.size() < kMagicBytes) {
      return bytes_.size() + 1;
    } else {
      form_ = Form::kNpy;
    }
  }
  if (form_ == Form::kNpy) return npy_bytes(bytes_, input_.type.dtype);
  const auto bytes = input_.type.fixed() ? input_.type.max_bytes().value_or(0) : 0;
  if (bytes > 0) return bytes;
  return invalid_argument(
      "expected .npy files one behind the other, as ", input_.type,
      " does not say how many bytes a frame has; or ",
      takes_bytes(input_.type)
          ? concat("give files (--input ", input_.name, "=FOLDER)")
          : concat("fix it (", OptionName::kShapes, ", in an application 'inputs')"));
}

Result<StandardInput::Came> StandardInput::take_bytes(std::uint64_t most,
                                                      std::chrono::milliseconds patience) {
  pollfd waiting{STDIN_FILENO, POLLIN, 0};
  if (::poll(&waiting, 1, static_cast<int>(patience.count())) <= 0) return Came::kNothing;
  const auto size = bytes_.size();
  bytes_.resize(size + std::min(most, kAtOnce));
  const auto count = ::read(STDIN_FILENO, &bytes_[size], bytes_.size() - size);
  const int problem = errno;
  bytes_.resize(size + static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (count > 0) return Came::kBytes;
  if (count == 0) return Came::kEnd;
  if (problem == EINTR || problem == EAGAIN) return Came::kNothing;
  return make_error(Code::kDataLoss, "cannot be read: ", std::generic_category().message(problem));
}

Result<std::optional<Tensor>> StandardInput::read(std::chrono::milliseconds patience) {
  while (!ended_) {
    auto wanted = wanted_bytes();
    if (!wanted) return std::move(wanted).error().within(place());
    if (form_ != Form::kUnknown && bytes_.size() >= *wanted) {
      // To know the form may have taken more bytes than a small value has.
      const auto end = bytes_.begin() + static_cast<std::ptrdiff_t>(*wanted);
      const std::vector<std::byte> behind(end, bytes_.end());
      bytes_.erase(end, bytes_.end());
      PENSTOCK_TRY(auto tensor, to_tensor());
      bytes_.assign(behind.begin(), behind.end());
      ++frame_;
      return std::optional(std::move(tensor));
    }
    auto came = take_bytes(*wanted - bytes_.size(), patience);
    if (!came) return std::move(came).error().within(place());
    if (*came == Came::kNothing) return std::optional<Tensor>();
    const bool at_end = *came == Came::kEnd;
    if (at_end && form_ == Form::kUnknown && !bytes_.empty()) {
      form_ = Form::kRaw;
      continue;
    }
    ended_ = at_end;
    if (ended_ && !bytes_.empty()) {
      return make_error(
          Code::kDataLoss, place(), ": is cut off: expected ", counted(*wanted, "byte"),
          form_ == Form::kRaw ? concat(" of ", input_.type) : "", ", found ", bytes_.size());
    }
  }
  return std::optional<Tensor>();
}

Result<Tensor> StandardInput::to_tensor() {
  if (form_ == Form::kRaw) {
    if (const auto kind = frame_ == 0 ? kind_of_file(bytes_) : ""; !kind.empty()) {
      return invalid_argument(
          place(), ": begins as ", kind,
          ": expected plain numbers, or .npy files one behind the other; name the file itself");
    }
    Tensor tensor = Tensor::allocate(input_.type.dtype, sizes_of(input_.type));
    std::memcpy(tensor.data(), bytes_.data(), bytes_.size());
    return tensor;
  }
  std::span<const std::byte> rest(bytes_);
  const auto source = [&rest](std::span<std::byte> bytes) -> Status {
    if (!bytes.empty()) std::memcpy(bytes.data(), rest.data(), bytes.size());
    rest = rest.subspan(bytes.size());
    return {};
  };
  auto tensor = read_npy(source, bytes_.size(), input_.type.dtype);
  if (!tensor) return std::move(tensor).error().within(place());
  PENSTOCK_CHECK_OK(
      check_value(*tensor, input_, concat("standard input: frame ", frame_), CameFrom::kStream));
  return tensor;
}

}  // namespace penstock::frames
