// ONNX's textual syntax -> bytes of a model. For tests and tools.
#pragma once

#include <string>

#include "penstock/base/result.h"

namespace penstock::graph {

/// `text` is a model as ONNX's parser reads it: `<ir_version: 10, opset_import: ["" : 20]> ...`.
/// Returns the serialised onnx.ModelProto. Nothing is checked or cleaned.
/// \error kInvalidArgument  the parser's own message.
Result<std::string> onnx_bytes_of_text(const std::string& text);

}  // namespace penstock::graph
