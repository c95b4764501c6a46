// One form for all ages of ONNX files, before anything looks at them. Internal to graph.
#pragma once

#include <map>
#include <string>

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/graph/external_data.h"

namespace penstock::graph {

/// The old name of ONNX's own domain goes, an operator set is always named, graphs have names,
/// nodes stand behind what they read,
/// and in files before IR 4 nested graphs do not list initialisers as inputs. Raises the model's
/// IR version to 4.
void normalise(onnx::ModelProto& model);

/// Weights by the name of the tensor (of the initialiser, or of the Constant node's output).
using Weights = std::map<std::string, Tensor>;

/// Moves the numbers of initialisers and of large Constant nodes out of the main graph; what is
/// large leaves a stand-in that satisfies the checker. External data of all else come inline.
Result<Weights> take_weights(onnx::ModelProto& model, DataReader& reader);

/// ONNX's checker. \error kInvalidArgument  the first line of what it says.
Status check(onnx::ModelProto& model);

/// Model-local functions. \error kUnimplemented  one that cannot be inlined; names it.
Status inline_functions(onnx::ModelProto& model);

}  // namespace penstock::graph
