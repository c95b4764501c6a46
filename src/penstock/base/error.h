// Errors are values: a code a program can act on, and a sentence a person can act on.
#pragma once

#include <concepts>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

namespace penstock {

/// What kind of failure. Values equal gRPC's, so an error crosses the wire untranslated.
enum class Code {
  kCancelled = 1,           ///< The pipeline was cancelled or is closed.
  kUnknown = 2,             ///< An engine failed without saying how.
  kInvalidArgument = 3,     ///< What the user gave is wrong in itself.
  kDeadlineExceeded = 4,    ///< A timeout or a frame's `max_age` ran out.
  kNotFound = 5,            ///< A file, node, tensor, device or backend that does not exist.
  kAlreadyExists = 6,       ///< Would overwrite something.
  kPermissionDenied = 7,    ///< The operating system refused.
  kResourceExhausted = 8,   ///< Memory, slots or an edge's capacity ran out.
  kFailedPrecondition = 9,  ///< Right call, wrong time or wrong machine.
  kAborted = 10,            ///< Dropped by a policy the user chose.
  kOutOfRange = 11,         ///< An index past the end.
  kUnimplemented = 12,      ///< No backend runs this.
  kInternal = 13,           ///< Our bug.
  kUnavailable = 14,        ///< An engine or worker cannot be reached.
  kDataLoss = 15,           ///< A file is truncated, changed or corrupt.
};

/// The code's stable spelling ("invalid_argument"), used in JSON.
std::string_view to_string(Code code);

struct [[nodiscard]] Error {
  Code code = Code::kUnknown;
  std::string reason;  ///< One line: what is wrong, where, what was found, what to do.

  /// For people.
  [[nodiscard]] const std::string& message() const { return reason; }

  /// Prefixes the caller's place: "bad pads" becomes "node 'conv1': bad pads".
  Error within(std::string_view place) && {
    return {code, std::string(place) + ": " + std::move(reason)};
  }
};

/// Something to print, of any type: so that the printing itself is compiled once. Borrows it.
class Printed {
 public:
  template <typename T>
  Printed(const T& item) {  // NOLINT(*-explicit-*)
    if constexpr (std::convertible_to<const T&, std::string_view>) {
      text_ = item;
    } else {
      item_ = &item;
      print_ = [](std::ostream& out, const void* printed) {
        out << *static_cast<const T*>(printed);
      };
    }
  }
  void print(std::ostream& out) const {
    print_ == nullptr ? void(out << text_) : print_(out, item_);
  }

 private:
  std::string_view text_;
  const void* item_ = nullptr;
  void (*print_)(std::ostream&, const void*) = nullptr;
};

std::string concat_all(std::initializer_list<Printed> items);

/// Everything that `<<` can print, in one string.
template <typename... Args>
std::string concat(const Args&... args) {
  return concat_all({Printed(args)...});
}

/// `items` separated by `separator`; `print(item)` gives each one's text.
template <typename Range, typename Print>
std::string join(const Range& items, std::string_view separator, Print print) {
  std::string text;
  bool first = true;
  for (const auto& item : items) {
    if (!std::exchange(first, false)) text += separator;
    text += print(item);
  }
  return text;
}

template <typename Range>
std::string join(const Range& items, std::string_view separator) {
  return join(items, separator, [](const auto& item) { return std::string(item); });
}

template <typename... Args>
Error make_error(Code code, const Args&... args) {
  return {code, concat_all({Printed(args)...})};
}
template <typename... Args>
Error invalid_argument(const Args&... args) {
  return make_error(Code::kInvalidArgument, args...);
}
template <typename... Args>
Error not_found(const Args&... args) {
  return make_error(Code::kNotFound, args...);
}
template <typename... Args>
Error internal_error(const Args&... args) {
  return make_error(Code::kInternal, args...);
}

}  // namespace penstock
