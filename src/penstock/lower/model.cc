// Imports the model of a request.
#include "penstock/lower/model.h"

#include "penstock/graph/import.h"

namespace penstock::lower {

Result<graph::Graph> model_of(const backend::CompileRequest& request) {
  const graph::ImportOptions options{
      .shapes = {}, .constants = {}, .parameters = {}, .as_is = false, .engine = {}};
  if (request.file.empty()) return graph::import_onnx_bytes(request.bytes, {}, options);
  return graph::import_onnx(request.file, options);
}

}  // namespace penstock::lower
