// ONNX's operators, with the sizes that engines compute. Internal to graph.
#pragma once

#include <string_view>

#include <onnx/defs/schema.h>

namespace penstock::graph {

/// ONNX's own registry, but for a few operators whose inference tells other sizes than their
/// specification and ONNX Runtime compute: those have an inference that corrects them, in nested
/// graphs and functions too. A size that cannot be known stays open.
/// - Resize and Upsample by scales: floor(size * scale) in float32, where ONNX computes in float64.
/// - MaxPool, AveragePool, LpPool: with ceil_mode the last window begins inside the input or the
///   padding before it (since opset 22 ONNX's own rule); SAME_* pads as if nothing were dilated.
/// - ConvTranspose with SAME_* and output_padding: padded until the size is size * stride.
/// - STFT: `onesided` is 1 where a node does not give it, as its schema says.
/// - Range of float32: open where its length depends on the precision of the difference.
/// Lives as long as the process; may be asked by several threads at once.
const onnx::ISchemaRegistry& engine_schemas();

/// Whether engine_schemas() corrects this operator of ONNX's own domain.
bool has_engine_sizes(std::string_view op);

}  // namespace penstock::graph
