// Takes the large weights out of a serialised model before protobuf sees them.
#pragma once

#include <cstddef>
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

}  // namespace penstock::graph
