// One form for all ages of ONNX files, before anything looks at them. Internal to graph.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <onnx/onnx_pb.h>

#include "penstock/base/result.h"
#include "penstock/graph/external_data.h"

namespace penstock::graph {

/// The message, its large weights left in `bytes` (see without_large_weights()).
/// \error kDataLoss  empty, truncated, no protobuf message, or without a graph.
Result<onnx::ModelProto> parse_model(std::string_view bytes);

/// The old name of ONNX's own domain goes, an operator set is always named, graphs have names,
/// nodes stand behind what they read,
/// and in files before IR 4 nested graphs do not list initialisers as inputs. Raises the model's
/// IR version to 4.
void normalise(onnx::ModelProto& model);

/// Names the outputs of Split that the graphs omit: ONNX Runtime (1.31.1) ends the process by
/// SIGSEGV where a piece in front of another one has no name. \returns whether there were any.
bool name_omitted_pieces(onnx::ModelProto& model);

/// Takes duplicates of the main graph as ONNX Runtime does, which warns of them: initialisers go
/// before Constant nodes of the same output, those before sparse initialisers, and the last one
/// counts if all are of one type and shape. \returns whether there were any.
bool settle_double_constants(onnx::ModelProto& model);

/// Adds the operator sets of the domains, not ONNX's own, that ONNX Runtime takes unnamed: its own,
/// of one version only, and of ai.onnx.ml the newest. \returns whether any was lacking.
bool name_known_opsets(onnx::ModelProto& model);

/// Weights by the name of the tensor (of the initialiser, or of the Constant node's output).
using Weights = std::map<std::string, Tensor>;

/// Moves the numbers of initialisers and of large Constant nodes out of the main graph; what is
/// large leaves a stand-in that satisfies the checker. External data of all else come inline.
Result<Weights> take_weights(onnx::ModelProto& model, DataReader& reader);

/// The wiring (see check_wiring()), then ONNX's checker. \error kInvalidArgument  what the one, or
/// the first line that the other says.
Status check(onnx::ModelProto& model);

}  // namespace penstock::graph
