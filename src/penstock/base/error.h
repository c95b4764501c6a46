// Errors are values: a code and places a program can act on, and a sentence a person can act on.
#pragma once

#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace penstock {

/// What kind of failure. Values equal gRPC's, so an error crosses the wire untranslated.
enum class Code {
  kCancelled = 1,           ///< The pipeline was cancelled or is closed.
  kUnknown = 2,             ///< An engine failed without saying how.
  kInvalidArgument = 3,     ///< What the user gave is wrong in itself.
  kDeadlineExceeded = 4,    ///< A timeout or a frame's `max_age` ran out.
  kNotFound = 5,            ///< A file, node, tensor, device or backend that does not exist.
  kAlreadyExists = 6,       ///< Would overwrite something.
  kPermissionDenied = 7,    ///< The operating system or a server refused.
  kResourceExhausted = 8,   ///< Memory, slots or an edge's capacity ran out.
  kFailedPrecondition = 9,  ///< Right call, wrong time or wrong machine.
  kAborted = 10,            ///< Dropped by a policy the user chose.
  kOutOfRange = 11,         ///< An index past the end.
  kUnimplemented = 12,      ///< No backend runs this.
  kInternal = 13,           ///< Our bug.
  kUnavailable = 14,        ///< An engine, a worker or a stage cannot be reached.
  kDataLoss = 15,           ///< A file is truncated, changed or corrupt.
  kUnauthenticated = 16,    ///< A server does not know who asks.
};

/// The code's stable spelling ("invalid_argument"), used in JSON.
std::string_view to_string(Code code);

/// One step on the way to what is wrong, by name or by number: stage 'head', frame 3.
struct Where {
  enum class Kind : std::uint8_t {
    kText,      ///< In words of its own, where no other kind fits.
    kStage,     ///< By name, as all that follow but those that say "by number".
    kReplica,   ///< By number, from 0, within its stage.
    kFrame,     ///< By number, from 0.
    kStream,    ///< By number, from 0.
    kItem,      ///< By number, from 0, within its frame.
    kNode,      ///< Of a network or an application.
    kOperator,  ///< What the node before it computes: "Conv".
    kFunction,
    kTensor,
    kInput,
    kOutput,
    kConstant,         ///< A tensor that the model holds.
    kParameter,        ///< A value that is set while the pipeline runs.
    kModel,            ///< By path.
    kPackage,          ///< By path.
    kCustomOps,        ///< By path: a library of custom operators.
    kFunctionLibrary,  ///< By path.
    kPicture,          ///< By path.
    kSound,            ///< By path.
    kFile,             ///< By path: any other file.
    kLine,             ///< By number, from 1, of the file before it.
    kPeer,             ///< Another machine.
    kDevice,           ///< That this machine lacks: "cpu:0-3".
    kBackend,          ///< By name: that this process lacks.
    kWay,              ///< Of running a model, where several are compared.
    kTimeoutNs,        ///< By number: how long was waited.
  };
  // GCC 12 ends with an internal error where a template uses what `using enum` brings.
  static constexpr Kind kText = Kind::kText, kStage = Kind::kStage, kReplica = Kind::kReplica,
                        kFrame = Kind::kFrame, kStream = Kind::kStream, kItem = Kind::kItem,
                        kNode = Kind::kNode, kOperator = Kind::kOperator,
                        kFunction = Kind::kFunction, kTensor = Kind::kTensor, kInput = Kind::kInput,
                        kOutput = Kind::kOutput, kConstant = Kind::kConstant,
                        kParameter = Kind::kParameter, kModel = Kind::kModel,
                        kPackage = Kind::kPackage, kCustomOps = Kind::kCustomOps,
                        kFunctionLibrary = Kind::kFunctionLibrary, kPicture = Kind::kPicture,
                        kSound = Kind::kSound, kFile = Kind::kFile, kLine = Kind::kLine,
                        kPeer = Kind::kPeer, kDevice = Kind::kDevice, kBackend = Kind::kBackend,
                        kWay = Kind::kWay, kTimeoutNs = Kind::kTimeoutNs;

  Kind kind = kText;
  std::string name;          ///< Empty where the place has a number.
  std::uint64_t number = 0;  ///< 0 where the place has a name.

  Where(Kind of, std::string called) : kind(of), name(std::move(called)) {}
  Where(Kind of, std::integral auto counted)
      : kind(of), number(static_cast<std::uint64_t>(counted)) {}

  bool operator==(const Where&) const = default;
};

/// The kind's stable spelling ("stage"), used in JSON and Python.
std::string_view to_string(Where::Kind kind);
/// Whether such places have a number, and no name.
bool is_numbered(Where::Kind kind);

struct [[nodiscard]] Error {
  Code code = Code::kUnknown;
  std::string reason;         ///< One line: what is wrong, what was found, what to do.
  std::vector<Where> places;  ///< Where, the outermost first.

  /// For people, in one line: "stage 'head': frame 3: bad pads". No program reads it.
  [[nodiscard]] std::string message() const;

  /// In the caller's place, which becomes the outermost one.
  Error within(Where place) &&;
  Error within(std::string text) && {
    return std::move(*this).within({Where::kText, std::move(text)});
  }
  Error within(std::vector<Where> outer) &&;

  /// With more to say after its reason: "; pass a float32 array".
  Error adding(std::string_view more) && {
    reason += more;
    return std::move(*this);
  }

  /// The first place of the kind from outside, or null.
  [[nodiscard]] Where* find(Where::Kind kind);
  [[nodiscard]] const Where* find(Where::Kind kind) const;

  bool operator==(const Error&) const = default;
};

/// The place of a network's node: "node 'conv1' (Conv)"; where it has no name, "the Conv that makes
/// 'y'", by the first of its outputs.
std::vector<Where> place_of_node(const std::string& name, const std::string& op,
                                 const std::string& output);

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
  return {.code = code, .reason = concat_all({Printed(args)...})};
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
/// What is said where there is no memory to say more: needs none itself.
inline Error out_of_memory() {
  return {.code = Code::kResourceExhausted, .reason = "out of memory"};
}

}  // namespace penstock
