// ONNX's own parser reads the text; its exceptions become errors.
#include "penstock/graph/onnx_text.h"

#include <onnx/defs/parser.h>

#include "penstock/graph/proto.h"

namespace penstock::graph {

Result<std::string> onnx_bytes_of_text(const std::string& text) {
  return guarded(Code::kInvalidArgument, "model text", [&]() -> Result<std::string> {
    onnx::ModelProto model;
    const auto status = onnx::OnnxParser::Parse(model, text.c_str());
    if (!status.IsOK()) return invalid_argument("model text: ", status.ErrorMessage());
    return model.SerializeAsString();
  });
}

}  // namespace penstock::graph
