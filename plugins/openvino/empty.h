// Nodes that end the process in OpenVINO, never end, or compute what they should not.
#pragma once

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"

namespace penstock::openvino {

/// OpenVINO's CPU plugin (2026.4) divides by the size of a dimension in Gather and in recurrent
/// nodes, and takes a 0 in the shape of an Expand for a 1. A Loop of fewer than 0 steps runs for
/// ever there, where ONNX has it run not at all; one that a condition ends may run for ever in any
/// engine, and OpenVINO cannot be told to end a run. A Constant without elements becomes a scalar.
/// \error kUnimplemented  the model has such a node that reads or makes a tensor without elements
///                        whatever the frame holds, or a Loop whose number of steps is no
///                        constant of 0 to 1,000,000, or a result of a branch or loop that is a
///                        constant without elements; names it. What is no model is left to others.
Status refuse_nodes(const backend::CompileRequest& request);

}  // namespace penstock::openvino
