// begin_part: a message in a oneof of another.
#pragma once

namespace penstock::grpc {

/// Sets the part by `set`, a set_allocated_...() of the message. mutable_...() says what the oneof
/// holds before it has memory for it: where that is refused, the message's destructor frees a part
/// that is none (protobuf 3.21).
/// \pre  the message is on no arena.
template <typename Part, typename Message>
Part& begin_part(Message& message, void (Message::*set)(Part*)) {
  auto* const part = new Part;
  (message.*set)(part);
  return *part;
}

}  // namespace penstock::grpc
