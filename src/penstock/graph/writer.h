// Subgraph -> plain ONNX model, with the original tensor names.
#pragma once

#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/subgraph.h"

namespace penstock::graph {

class WeightStore;

struct WriteOptions {
  /// Constants of at least this many bytes go to "<file name>.data" beside the model, each at a
  /// 64-byte aligned offset; 0: everything inline.
  std::size_t external_from_bytes = 1024;
  /// ONNX annotations: `pipeline_stage` by NodeId of the graph (device_configurations, IR 11); a
  /// negative or missing entry: none for that node.
  std::vector<int> pipeline_stages;
  /// metadata_props key "layer_ann" for each node index; empty: as the graph has them.
  std::map<std::size_t, std::string> layer_annotations;
  /// Constants that it holds are not written: a link of its file stands beside the model. Null:
  /// none.
  const WeightStore* weights = nullptr;
};

/// Streams the model to `file`; constants are written straight from their storage. Both files get
/// their names only when complete, so the file that a graph was imported from may be replaced.
/// Returns every file written (the model first, then its data files if there are any).
/// \error kNotFound, kPermissionDenied, kResourceExhausted  the file cannot be written.
/// \error kFailedPrecondition  an input's type is unknown; names the tensor and what makes it.
Result<std::vector<std::filesystem::path>> write_onnx(const Subgraph& subgraph,
                                                      const std::filesystem::path& file,
                                                      const WriteOptions& options);

/// A part and the file that it becomes.
struct ModelFile {
  Subgraph part;
  std::filesystem::path file;
};

/// Writes models of one folder that share constants: these stand once in a data file beside
/// the first model. All files get their names when the last is complete.
Result<std::vector<std::filesystem::path>> write_onnx(std::span<const ModelFile> models,
                                                      const WriteOptions& options);

/// The model as bytes, everything inline. \error kResourceExhausted  over protobuf's 2 GB.
Result<std::string> to_onnx_bytes(const Subgraph& subgraph);

/// One tensor as onnx.TensorProto bytes, and back (for .pb files).
Result<std::string> tensor_to_onnx(const Tensor& tensor, const std::string& name);
/// \error kDataLoss  not a TensorProto. SequenceProto and OptionalProto: see value_from_onnx.
Result<Tensor> tensor_from_onnx(std::string_view bytes);
/// A .pb file of the given type: TensorProto, SequenceProto or OptionalProto.
Result<Tensor> value_from_onnx(std::string_view bytes, const Type& type);

}  // namespace penstock::graph
