// Takes the large weights out of a serialised model before protobuf sees them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace penstock::graph {

/// Key of the external_data entry that stands for weights taken out; its value is
/// "<offset>,<length>" within the model's own bytes.
inline constexpr std::string_view kOwnBytesKey = "\x01penstock.own-bytes";

/// A copy of the serialised onnx.ModelProto in which every raw_data over kInlineBytes of an
/// initialiser or of an attribute in the main graph is replaced by such an entry. Empty if the
/// bytes are not well formed: protobuf then gives the reason. Nested graphs stay whole.
std::optional<std::string> without_large_weights(std::string_view bytes);

/// Calls `visit(number, content)` for each field of a serialised message that is a message, text or
/// bytes. False once a visit is, or if the bytes are not well formed.
bool visit_fields(std::string_view bytes,
                  const std::function<bool(std::uint32_t, std::string_view)>& visit);

}  // namespace penstock::graph
