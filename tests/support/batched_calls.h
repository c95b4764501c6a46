// Whether a model of several frames computes what so many calls of the model of one frame do.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "penstock/backend/plain_model.h"
#include "penstock/graph/batched.h"
#include "penstock/graph/writer.h"
#include "penstock/tensor/compare.h"

namespace penstock {

/// The tensors one after the other along the first dimension.
inline Tensor joined(const std::vector<Tensor>& pieces) {
  auto dims = pieces.front().dims();
  dims.front() *= static_cast<std::int64_t>(pieces.size());
  Tensor all = Tensor::allocate(pieces.front().dtype(), dims);
  auto* to = static_cast<std::byte*>(all.data());
  for (const auto& piece : pieces) {
    // A tensor without elements may have no memory.
    if (piece.bytes() > 0) std::memcpy(to, piece.data(), piece.bytes());
    to += piece.bytes();
  }
  return all;
}

using Outputs = std::vector<Tensor>;

/// The outputs of each frame's call, unoptimised.
inline Result<std::vector<Outputs>> run_graph(backend::Backend& backend, const graph::Graph& graph,
                                              const std::vector<std::vector<Tensor>>& frames) {
  PENSTOCK_TRY(const auto bytes, graph::to_onnx_bytes(graph::Subgraph::whole(graph)));
  backend::CompileRequest request;
  request.bytes = bytes;
  request.optimize = false;
  PENSTOCK_TRY(auto model, backend::PlainModel::create(backend, request));
  std::vector<Outputs> made;
  for (const auto& frame : frames) {
    std::vector<const Tensor*> inputs;
    inputs.reserve(frame.size());
    for (const auto& tensor : frame) inputs.push_back(&tensor);
    PENSTOCK_CHECK_OK(model.run(inputs));
    made.push_back(model.take_values());
  }
  return made;
}

/// Empty if `wide`, the graph of as many frames as there are, gives what `single` gives of each.
/// `skipped`: a single call itself fails.
inline std::string batched_difference(backend::Backend& backend, const graph::Graph& single,
                                      const graph::Graph& wide,
                                      const std::vector<std::vector<Tensor>>& frames,
                                      bool& skipped) {
  const auto alone = run_graph(backend, single, frames);
  skipped = !alone;
  if (skipped) return {};
  std::vector<Tensor> all;
  for (std::size_t i = 0; i < frames.front().size(); ++i) {
    std::vector<Tensor> pieces;
    for (const auto& frame : frames) pieces.push_back(frame[i]);
    all.push_back(joined(pieces));
  }
  const auto together = run_graph(backend, wide, {all});
  if (!together) return together.error().message();
  for (std::size_t i = 0; i < together->front().size(); ++i) {
    std::vector<Tensor> pieces;
    for (const auto& outputs : *alone) pieces.push_back(outputs[i]);
    const auto compared = compare(together->front()[i], joined(pieces));
    if (!compared.ok()) return concat("output ", i, ": ", to_string(compared));
  }
  return {};
}

}  // namespace penstock
