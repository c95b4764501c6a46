// Recurrent nodes on sequences that are not there, which end the process in ONNX Runtime.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"

namespace penstock::ort {

/// An input's dimension that must not be 0, and the node that it reaches.
struct FilledAxis {
  std::string input;
  std::size_t axis = 0;
  std::vector<Where> node;
};

/// ONNX Runtime (1.31.1) ends the process on a batch of 0 in LSTM and GRU, and in a GRU on 0 steps.
/// What keeps a frame from there.
struct Filled {
  std::vector<FilledAxis> axes;  ///< What inputs tell, before the run: of no cost in it.
  /// In place of the request's model where shapes do not tell all: its recurrent nodes read through
  /// a Reshape, which changes and copies nothing, and fails on such sequences. Empty: no need.
  std::string model;
  std::vector<std::vector<Where>> nodes;  ///< Of `model`, by the Reshape's number.
};

/// What is no model is left to others.
/// \error kUnimplemented  such a dimension is 0 whatever the frame holds; names the node.
Result<Filled> filled_of(const backend::CompileRequest& request);

/// \error kInvalidArgument  the tensor for `input` is empty in one of the axes; names the node.
Status refuse_empty(const Filled& filled, const std::string& input, const Tensor& tensor);

/// Whether the text of ONNX Runtime's error names a Reshape of `filled.model`.
bool names_reshape(const Filled& filled, std::string_view text);

/// ONNX Runtime's error: where a Reshape of `filled.model` failed, that of the node behind it.
Error behind_reshape(const Filled& filled, Error error);

}  // namespace penstock::ort
