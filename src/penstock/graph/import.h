// An ONNX file -> Graph. The only door for models.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/graph.h"
#include "penstock/tensor/tensor.h"

namespace penstock::graph {

/// What import asks of an engine, handed in so that `graph` knows no backend. Either may be empty:
/// then nothing is folded, or unknown types stay unknown.
struct Engine {
  /// Runs a model without inputs (serialised onnx.ModelProto, no external data) and returns its
  /// outputs in order. Used for constant folding.
  std::function<Result<std::vector<Tensor>>(const std::string& model)> evaluate;
  /// The types an engine infers for the outputs of a model (weights may be absent or zero-sized
  /// in shape only). Used for operators of domains that ONNX cannot infer.
  std::function<Result<std::vector<Type>>(const std::string& model)> output_types;
};

/// What an input is bound to: a tensor, or a text, which is the path of an .npy file or a value as
/// parse_literal() reads it.
using InputValue = std::variant<Tensor, std::string>;

/// Whether engines here may add two products of an unsigned and a signed byte in sixteen bits, and
/// cut off what is more, as ONNX Runtime does on x86 without VNNI.
bool may_cut_byte_products();

/// What of a model engines here may cut off (may_cut_byte_products()), as it stands.
struct CutProducts {
  bool of_bytes = false;   ///< It multiplies unsigned bytes by signed ones.
  bool of_floats = false;  ///< Such as DequantizeLinear makes of unsigned bytes, and of signed ones
                           ///< that may change or that a nested graph reads.
};

/// \param bytes  the model, where `file` is empty.
/// \error kDataLoss  not an ONNX model.
Result<CutProducts> cut_products(const std::filesystem::path& file, std::string_view bytes);

struct ImportOptions {
  /// Fixes or bounds open input dimensions: "x" -> {1, 3, 224, 224}. See parse_shape().
  std::map<std::string, std::vector<Dim>> shapes;
  /// Inputs that have one value for good: they become constants. "sr" -> "16000".
  std::map<std::string, InputValue> constants;
  std::vector<std::string> parameters;  ///< Initialisers that stay replaceable.
  /// No cleaning: Constant nodes, Identities, unused constants stay, nothing is folded; functions
  /// are inlined all the same. From IR 4 on an initialiser that the file also lists as an input
  /// has `constant` and `is_input`, is not among Graph::inputs, and is written in both places:
  /// engines take it for a default, as they do in the file. Before IR 4 it is a constant.
  bool as_is = false;
  /// Signed bytes that unsigned ones are multiplied by (MatMulInteger, ConvInteger, their QLinear
  /// and com.microsoft kin) become unsigned, and their zero points 128 larger: sums stay what they
  /// are, and are added whole.
  bool whole_byte_products = may_cut_byte_products();
  Engine engine;
};

/// "name=1x3x224x224", "ids=1x1..512" (open from 1 to 512), "x=?x80" (open): a `--shape` argument.
/// \error kInvalidArgument  shows the text and the form expected.
Result<std::pair<std::string, std::vector<Dim>>> parse_shape(const std::string& text);

/// "sr=16000", "ids=[1, 2]", "mask=mask.npy": a `--constant` argument, parted at the first '='. An
/// import takes the longest name of an input that a text and its value begin with.
/// \error kInvalidArgument  shows the text and the form expected.
Result<std::pair<std::string, std::string>> parse_constant(const std::string& text);

/// Reads, checks and cleans a model. Weights over 64 KiB are read straight from the file into
/// aligned storage of their own, external data are mapped: nothing large is in memory twice.
///
/// Inputs that the options bind become constants. Clean import (unless `as_is`): initialisers
/// listed as inputs become constants, Constant nodes become initialisers, constant expressions are
/// folded, an If of known condition gives way to its branch, Identity, dead nodes and unused
/// initialisers go, functions are inlined. Tensor names of what stays do not change.
///
/// \error kNotFound         no such file, of the model or of a constant; no input or initialiser of
///                          that name in the options.
/// \error kDataLoss         not an ONNX model: empty, truncated, or not protobuf.
/// \error kInvalidArgument  ONNX's checker refuses it, or external data leads outside its folder;
///                          a constant does not fit its input.
/// \error kUnimplemented    a function, or an operator set, that cannot be written out.
/// \error kResourceExhausted  no memory; a tensor unfolds to more than 1 GiB, a nested graph holds
///                            more than 2 GB.
Result<Graph> import_onnx(const std::filesystem::path& file, const ImportOptions& options);

/// import_onnx() of bytes in memory; external data is looked up in `folder` (refused when empty).
Result<Graph> import_onnx_bytes(std::string_view bytes, const std::filesystem::path& folder,
                                const ImportOptions& options);

/// Whether engines refuse the file, end the process, or each take it in their own way, for what the
/// import mends: nodes that share a name, or stand before what they read, constants of one name,
/// domains without operator set, pieces of a Split without a name, and products of bytes that
/// engines here may cut off (may_cut_byte_products()). Written again from an import they take it.
/// \error as import_onnx()
Result<bool> needs_mending(const std::filesystem::path& file);

}  // namespace penstock::graph
