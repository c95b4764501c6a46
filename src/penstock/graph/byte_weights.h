// Products of bytes that a processor's engines may cut off, written so that none is.
#pragma once

#include <cstddef>

#include "penstock/graph/graph.h"

namespace onnx {
class GraphProto;
}

namespace penstock::graph {

/// Whether engines here may add two products of an unsigned and a signed byte in sixteen bits, and
/// cut off what is more, as ONNX Runtime does on x86 without VNNI.
bool may_cut_byte_products();

/// Whether a node multiplies by constant signed bytes.
bool has_signed_byte_weights(const onnx::GraphProto& graph);

/// Makes signed bytes that unsigned ones are multiplied by (MatMulInteger, ConvInteger and their
/// QLinear kin) unsigned, larger by 128 as their zero point is: the sums stay what they are, and
/// products of unsigned bytes are added whole. Constants that something else reads stay, as do
/// nested graphs. Types are known. \returns how many weights were changed.
std::size_t make_byte_weights_unsigned(Graph& graph);

}  // namespace penstock::graph
