// Products of bytes that a processor's engines may cut off, written so that none is.
// Internal to graph.
#pragma once

#include <set>
#include <string>

#include <onnx/onnx_pb.h>

#include "penstock/graph/normalise.h"

namespace penstock::graph {

/// Whether make_byte_products_whole() has something to change, for all that the file tells; a
/// product in a function counts.
/// \pre  nodes are sorted.
bool multiplies_mixed_bytes(const onnx::ModelProto& model);

/// Whether floats that DequantizeLinear makes of unsigned bytes are multiplied by such of signed
/// bytes that may change, or that a nested graph reads: where ONNX Runtime multiplies the bytes
/// instead, it makes signed constants of the main graph alone unsigned.
/// \pre  nodes are sorted.
bool multiplies_mixed_floats(const onnx::ModelProto& model);

/// Where unsigned bytes are multiplied by signed ones (MatMulInteger, ConvInteger, their QLinear
/// and com.microsoft kin), in nested graphs too, makes the signed ones and their zero point
/// unsigned, both larger by 128: the sums stay what they are, and engines add products of unsigned
/// bytes whole. Constants get a copy, and go where nothing else reads them; to what is computed
/// nodes are added. Signed data stay, as their products with signed bytes are added whole, and so
/// do bytes of which neither the file nor inference tells the type.
/// \pre  functions are inlined, `weights` are those of take_weights().
/// \param replaceable  initialisers that a user may give another value.
void make_byte_products_whole(onnx::ModelProto& model, Weights& weights,
                              const std::set<std::string>& replaceable);

}  // namespace penstock::graph
