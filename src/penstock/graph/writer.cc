// Writes models with their data files and annotations, and single tensors, which it reads too.
#include "penstock/graph/writer.h"

#include <algorithm>
#include <iterator>
#include <list>
#include <map>

#include <onnx/onnx-data.pb.h>

#include "penstock/base/option_name.h"
#include "penstock/graph/model_proto.h"
#include "penstock/graph/new_file.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/weight_store.h"

namespace penstock::graph {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDeviceConfigurationIr = 11;
constexpr const char* kConfiguration = "penstock";

Part part_of(const Subgraph& subgraph) {
  Part part{subgraph.nodes(), subgraph.inputs(), subgraph.outputs(), subgraph.constants()};
  // Imported as is: an initialiser that the file also lists as an input stays overridable.
  for (const auto id : part.constants) {
    if (subgraph.graph().value(id).is_input) part.inputs.push_back(id);
  }
  return part;
}

/// No model can start at a value of unknown type.
Status check_inputs(const Subgraph& subgraph) {
  const auto& graph = subgraph.graph();
  for (const auto id : subgraph.inputs()) {
    const auto& value = graph.value(id);
    if (value.type.kind != Type::Kind::kUnknown) continue;
    std::string maker = "a graph input";
    if (value.producer) {
      const auto& node = graph.node(*value.producer);
      maker = concat("made by node '", node.name, "', operator ",
                     node.domain.empty() ? "" : node.domain + ".", node.op);
    }
    return make_error(
        Code::kFailedPrecondition, "tensor '", value.name, "' (", maker,
        "): its type is unknown, so no model can start there; cut elsewhere, or give the "
        "library of its operator (",
        OptionName::kCustomOps, ")");
  }
  return {};
}

void set_metadata(onnx::NodeProto& node, const std::string& key, const std::string& value) {
  auto& entries = *node.mutable_metadata_props();
  const auto found = std::ranges::find(entries, key, &onnx::StringStringEntryProto::key);
  auto& entry = found == entries.end() ? *entries.Add() : *found;
  entry.set_key(key);
  entry.set_value(value);
}

void annotate(const Subgraph& subgraph, const WriteOptions& options, onnx::ModelProto& model) {
  int devices = 0;
  for (std::size_t i = 0; i < subgraph.nodes().size(); ++i) {
    const auto id = index(subgraph.nodes()[i]);
    auto& node = *model.mutable_graph()->mutable_node(static_cast<int>(i));
    if (id < options.pipeline_stages.size() && options.pipeline_stages[id] >= 0) {
      auto* configuration = node.add_device_configurations();
      configuration->set_configuration_id(kConfiguration);
      configuration->set_pipeline_stage(options.pipeline_stages[id]);
      devices = std::max(devices, options.pipeline_stages[id] + 1);
    }
    if (const auto text = options.layer_annotations.find(id);
        text != options.layer_annotations.end()) {
      set_metadata(node, "layer_ann", text->second);
      model.set_ir_version(std::max(model.ir_version(), kNodeMetadataIr));
    }
  }
  if (devices == 0) return;
  model.set_ir_version(std::max(model.ir_version(), kDeviceConfigurationIr));
  auto* configuration = model.add_configuration();
  configuration->set_name(kConfiguration);
  configuration->set_num_devices(devices);
}

/// Where the numbers beside a model stand: in the store's file, or in one of its own, where each
/// storage is written once, at an aligned offset.
class DataFile {
 public:
  DataFile(const fs::path& model, const WeightStore* store)
      : path_(model.string() + ".data"), store_(store) {}

  /// What stands beside the model now.
  [[nodiscard]] std::vector<fs::path> paths() const {
    std::vector<fs::path> paths;
    if (file_) paths.push_back(path_);
    if (linked_.value_or(false)) paths.push_back(path_.parent_path() / WeightStore::kFileName);
    return paths;
  }

  /// Writes the numbers, unless the store has them, and says in `proto` where.
  Status add(const Tensor& tensor, onnx::TensorProto& proto) {
    if (const auto offset = in_store(tensor)) {
      refer(WeightStore::kFileName, *offset, tensor, proto);
      return {};
    }
    if (!file_) file_.emplace(path_);
    const auto key = std::make_pair(tensor.data(), tensor.bytes());
    auto known = offsets_.find(key);
    if (known == offsets_.end()) {
      PENSTOCK_TRY(const std::uint64_t offset, file_->align(Tensor::kAlignment));
      PENSTOCK_CHECK_OK(file_->write({static_cast<const char*>(tensor.data()), tensor.bytes()}));
      known = offsets_.emplace(key, offset).first;
    }
    refer(path_.filename().string(), known->second, tensor, proto);
    return {};
  }

  Status commit() { return file_ ? file_->commit() : Status{}; }

 private:
  /// Where there are no links, the file of its own has it.
  std::optional<std::uint64_t> in_store(const Tensor& tensor) {
    if (store_ == nullptr) return std::nullopt;
    const auto offset = store_->find(tensor);
    if (offset && !linked_) linked_ = store_->link_into(path_.parent_path());
    return linked_.value_or(false) ? offset : std::nullopt;
  }

  static void refer(const std::string& file, std::uint64_t offset, const Tensor& tensor,
                    onnx::TensorProto& proto) {
    proto.set_data_location(onnx::TensorProto::EXTERNAL);
    put(proto, "location", file);
    put(proto, "offset", std::to_string(offset));
    put(proto, "length", std::to_string(tensor.bytes()));
  }

  static void put(onnx::TensorProto& proto, const char* key, const std::string& value) {
    auto* entry = proto.add_external_data();
    entry->set_key(key);
    entry->set_value(value);
  }

  fs::path path_;
  const WeightStore* store_;
  std::optional<bool> linked_;  ///< Whether the store's file stands beside the model; once asked.
  std::optional<NewFile> file_;
  std::map<std::pair<const void*, std::size_t>, std::uint64_t> offsets_;
};

/// Complete but for its name.
Status write_model(const Subgraph& subgraph, const WriteOptions& options, DataFile& data,
                   NewFile& out) {
  const auto& graph = subgraph.graph();
  PENSTOCK_CHECK_OK(check_inputs(subgraph));
  const auto part = part_of(subgraph);
  PENSTOCK_TRY(onnx::ModelProto model, model_of(graph, part));
  annotate(subgraph, options, model);
  Status failed;
  const auto complete = [&](ValueId id, onnx::TensorProto& proto) {
    const auto& tensor = *graph.value(id).constant;
    if (tensor.kind() != Tensor::Kind::kDense || options.external_from_bytes == 0 ||
        tensor.bytes() < options.external_from_bytes) {
      return true;
    }
    if (failed) failed = data.add(tensor, proto);
    return false;
  };
  const auto sink = [&](std::string_view piece) { return failed ? out.write(piece) : failed; };
  return stream(graph, model, part.constants, complete, sink);
}

Result<std::vector<fs::path>> write_models(std::span<const ModelFile> models,
                                           const WriteOptions& options) {
  DataFile data(models.front().file, options.weights);
  std::vector<fs::path> files;
  std::list<NewFile> drafts;
  for (const auto& [part, file] : models) {
    PENSTOCK_CHECK_OK(write_model(part, options, data, drafts.emplace_back(file)));
    files.push_back(file);
  }
  // The data first: a model never stands beside the data of another.
  PENSTOCK_CHECK_OK(data.commit());
  for (auto& draft : drafts) PENSTOCK_CHECK_OK(draft.commit());
  std::ranges::copy(data.paths(), std::back_inserter(files));
  return files;
}

template <typename Proto>
bool parse(std::string_view bytes, Proto& proto) {
  return bytes.size() <= INT32_MAX &&
         proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()));
}

Result<Tensor> value_of(const onnx::SequenceProto& proto);

Result<Tensor> value_of(const onnx::OptionalProto& proto) {
  if (proto.has_tensor_value()) return tensor_of(proto.tensor_value());
  if (proto.has_sparse_tensor_value()) return tensor_of(proto.sparse_tensor_value());
  if (proto.has_sequence_value()) return value_of(proto.sequence_value());
  if (proto.has_optional_value()) return value_of(proto.optional_value());
  if (proto.has_map_value()) {
    return make_error(Code::kUnimplemented, "optional '", proto.name(), "': it holds a map");
  }
  return Tensor();
}

template <typename List, typename Convert>
Status append(const List& list, Convert convert, std::vector<Tensor>& to) {
  for (const auto& item : list) {
    PENSTOCK_TRY(Tensor tensor, convert(item));
    to.push_back(std::move(tensor));
  }
  return {};
}

Result<Tensor> value_of(const onnx::SequenceProto& proto) {
  if (proto.map_values_size() > 0) {
    return make_error(Code::kUnimplemented, "sequence '", proto.name(), "': it holds maps");
  }
  const auto tensor = [](const auto& item) { return tensor_of(item); };
  const auto nested = [](const auto& item) { return value_of(item); };
  std::vector<Tensor> elements;
  PENSTOCK_CHECK_OK(append(proto.tensor_values(), tensor, elements));
  PENSTOCK_CHECK_OK(append(proto.sparse_tensor_values(), tensor, elements));
  PENSTOCK_CHECK_OK(append(proto.sequence_values(), nested, elements));
  PENSTOCK_CHECK_OK(append(proto.optional_values(), nested, elements));
  return Tensor::sequence(std::move(elements));
}

template <typename Proto>
Result<Tensor> parse_value(std::string_view bytes, const char* what) {
  Proto proto;
  if (!parse(bytes, proto)) {
    return make_error(Code::kDataLoss, "expected a serialised ", what, ", found ", bytes.size(),
                      " bytes that are none");
  }
  return value_of(proto);
}

}  // namespace

Result<std::vector<fs::path>> write_onnx(const Subgraph& subgraph, const fs::path& file,
                                         const WriteOptions& options) {
  const ModelFile model{subgraph, file};
  return write_onnx(std::span(&model, 1), options);
}

Result<std::vector<fs::path>> write_onnx(std::span<const ModelFile> models,
                                         const WriteOptions& options) {
  return guarded(Code::kInternal, concat("file '", models.front().file.string(), "'"),
                 [&] { return write_models(models, options); });
}

Result<std::string> to_onnx_bytes(const Subgraph& subgraph) {
  PENSTOCK_CHECK_OK(check_inputs(subgraph));
  return guarded(Code::kInternal, "model",
                 [&] { return bytes_of(subgraph.graph(), part_of(subgraph)); });
}

Result<std::string> tensor_to_onnx(const Tensor& tensor, const std::string& name) {
  if (tensor.kind() != Tensor::Kind::kDense && tensor.kind() != Tensor::Kind::kStrings) {
    return invalid_argument("expected numbers or strings, found ", tensor.type())
        .within({Where::kTensor, name});
  }
  return guarded(Code::kInternal, concat("tensor '", name, "'"), [&]() -> Result<std::string> {
    if (tensor.bytes() > INT32_MAX - kInlineBytes) {
      return make_error(Code::kResourceExhausted, tensor.bytes(), " bytes, protobuf allows 2 GB")
          .within({Where::kTensor, name});
    }
    onnx::TensorProto proto;
    fill(tensor, name, proto);
    return proto.SerializeAsString();
  });
}

Result<Tensor> tensor_from_onnx(std::string_view bytes) {
  return guarded(Code::kDataLoss, "tensor", [&]() -> Result<Tensor> {
    onnx::TensorProto proto;
    if (!parse(bytes, proto) || !proto.has_data_type()) {
      return make_error(Code::kDataLoss, "expected a serialised TensorProto, found ", bytes.size(),
                        " bytes that are none");
    }
    if (proto.data_location() == onnx::TensorProto::EXTERNAL) {
      return make_error(Code::kDataLoss, "expected its numbers in the file, found external data")
          .within({Where::kTensor, proto.name()});
    }
    return tensor_of(proto);
  });
}

Result<Tensor> value_from_onnx(std::string_view bytes, const Type& type) {
  onnx::TypeProto proto;
  if (type.kind == Type::Kind::kOther && proto.ParseFromString(type.onnx)) {
    return guarded(Code::kDataLoss, "value", [&]() -> Result<Tensor> {
      if (proto.has_sequence_type()) {
        return parse_value<onnx::SequenceProto>(bytes, "SequenceProto");
      }
      if (proto.has_optional_type()) {
        return parse_value<onnx::OptionalProto>(bytes, "OptionalProto");
      }
      return make_error(Code::kUnimplemented, "expected a tensor, sequence or optional, found ",
                        type);
    });
  }
  return tensor_from_onnx(bytes);
}

}  // namespace penstock::graph
