// The sentence that an error's places make, outermost first, and the names of codes and places.
#include "penstock/base/error.h"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace penstock {
namespace {

/// "stage", "function library"
std::string noun_of(Where::Kind kind) {
  if (kind == Where::kCustomOps) return "custom-operator library";
  std::string noun(to_string(kind));
  std::ranges::replace(noun, '_', ' ');
  return noun;
}

/// A place as it stands in a sentence, after `before` or at its begin: "stage 'head'", ": frame 3",
/// ":12" after a file, " (Conv)" after a node.
std::string text_of(const Where& place, const Where* before) {
  const auto follows = [&](Where::Kind kind) { return before != nullptr && before->kind == kind; };
  const std::string_view separator = before == nullptr ? "" : ": ";
  switch (place.kind) {
    case Where::kText:
    case Where::kWay:
      return concat(separator, place.name);
    case Where::kOperator:
      if (follows(Where::kNode)) return concat(" (", place.name, ")");
      break;
    case Where::kLine:
      if (follows(Where::kFile)) return concat(":", place.number);
      break;
    case Where::kTimeoutNs:
      return concat(before == nullptr ? "" : " ", "within ",
                    static_cast<double>(place.number) / 1e6, " ms");
    default:
      break;
  }
  if (is_numbered(place.kind)) return concat(separator, noun_of(place.kind), " ", place.number);
  return concat(separator, noun_of(place.kind), " '", place.name, "'");
}

/// A file whose line comes next stands without its kind: "app.yaml:12".
std::string text_of_file(const Where& file, const Where* before) {
  return concat(before == nullptr ? "" : ": ", file.name);
}

}  // namespace

std::string concat_all(std::initializer_list<Printed> items) {
  std::ostringstream out;
  out.exceptions(std::ios::badbit);  // Else a sentence is cut where memory runs out.
  for (const auto& item : items) item.print(out);
  return std::move(out).str();
}

std::vector<Where> place_of_node(const std::string& name, const std::string& op,
                                 const std::string& output) {
  if (!name.empty()) return {{Where::kNode, name}, {Where::kOperator, op}};
  return {{Where::kText, concat("the ", op, " that makes '", output, "'")}};
}

std::string_view to_string(Code code) {
  switch (code) {
    case Code::kCancelled:
      return "cancelled";
    case Code::kUnknown:
      return "unknown";
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kDeadlineExceeded:
      return "deadline_exceeded";
    case Code::kNotFound:
      return "not_found";
    case Code::kAlreadyExists:
      return "already_exists";
    case Code::kPermissionDenied:
      return "permission_denied";
    case Code::kResourceExhausted:
      return "resource_exhausted";
    case Code::kFailedPrecondition:
      return "failed_precondition";
    case Code::kAborted:
      return "aborted";
    case Code::kOutOfRange:
      return "out_of_range";
    case Code::kUnimplemented:
      return "unimplemented";
    case Code::kInternal:
      return "internal";
    case Code::kUnavailable:
      return "unavailable";
    case Code::kDataLoss:
      return "data_loss";
    case Code::kUnauthenticated:
      return "unauthenticated";
  }
  return "unknown";
}

std::string_view to_string(Where::Kind kind) {
  switch (kind) {
    case Where::kText:
      return "text";
    case Where::kStage:
      return "stage";
    case Where::kReplica:
      return "replica";
    case Where::kFrame:
      return "frame";
    case Where::kStream:
      return "stream";
    case Where::kItem:
      return "item";
    case Where::kNode:
      return "node";
    case Where::kOperator:
      return "operator";
    case Where::kFunction:
      return "function";
    case Where::kTensor:
      return "tensor";
    case Where::kInput:
      return "input";
    case Where::kOutput:
      return "output";
    case Where::kConstant:
      return "constant";
    case Where::kParameter:
      return "parameter";
    case Where::kModel:
      return "model";
    case Where::kPackage:
      return "package";
    case Where::kCustomOps:
      return "custom_ops";
    case Where::kFunctionLibrary:
      return "function_library";
    case Where::kPicture:
      return "picture";
    case Where::kSound:
      return "sound";
    case Where::kFile:
      return "file";
    case Where::kLine:
      return "line";
    case Where::kDevice:
      return "device";
    case Where::kBackend:
      return "backend";
    case Where::kPeer:
      return "peer";
    case Where::kWay:
      return "way";
    case Where::kTimeoutNs:
      return "timeout_ns";
  }
  return "text";
}

bool is_numbered(Where::Kind kind) {
  switch (kind) {
    case Where::kReplica:
    case Where::kFrame:
    case Where::kStream:
    case Where::kItem:
    case Where::kLine:
    case Where::kTimeoutNs:
      return true;
    default:
      return false;
  }
}

std::string Error::message() const {
  std::string text;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const Where* before = i > 0 ? &places[i - 1] : nullptr;
    const bool of_a_line = places[i].kind == Where::kFile && i + 1 < places.size() &&
                           places[i + 1].kind == Where::kLine;
    text += of_a_line ? text_of_file(places[i], before) : text_of(places[i], before);
  }
  return text.empty() || reason.empty() ? text + reason : text + ": " + reason;
}

Error Error::within(Where place) && {
  places.insert(places.begin(), std::move(place));
  return std::move(*this);
}

Error Error::within(std::vector<Where> outer) && {
  outer.insert(outer.end(), std::make_move_iterator(places.begin()),
               std::make_move_iterator(places.end()));
  places = std::move(outer);
  return std::move(*this);
}

Where* Error::find(Where::Kind kind) {
  const auto found = std::ranges::find(places, kind, &Where::kind);
  return found == places.end() ? nullptr : &*found;
}

const Where* Error::find(Where::Kind kind) const {
  const auto found = std::ranges::find(places, kind, &Where::kind);
  return found == places.end() ? nullptr : &*found;
}

}  // namespace penstock
