// Puts nodes and boundary into a message and streams the constants behind it from their storage.
#include "penstock/graph/model_proto.h"

#include <algorithm>
#include <cstdint>

#include "penstock/graph/engine_sizes.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

constexpr std::uint64_t kProtobufLimit = INT32_MAX;

constexpr char field_tag(int number) {
  return static_cast<char>((number << 3) | 2);
}

void put_varint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80U; value >>= 7U) out += static_cast<char>((value & 0x7FU) | 0x80U);
  out += static_cast<char>(value);
}

void put_header(int number, std::uint64_t length, std::string& out) {
  out += field_tag(number);
  put_varint(length, out);
}

onnx::ModelProto frame_of(const Graph& graph) {
  onnx::ModelProto model;
  model.set_ir_version(std::max(graph.info.ir_version, kFreeInitialisersIr));
  model.set_producer_name("penstock");
  for (const auto& [domain, version] : graph.info.opsets) {
    auto* opset = model.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
  }
  for (const auto& [key, value] : graph.info.metadata) {
    auto* entry = model.add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  model.mutable_graph()->set_name(graph.info.name.empty() ? "graph" : graph.info.name);
  return model;
}

template <typename Names>
void add_names(const Graph& graph, const std::vector<ValueId>& ids, Names& names) {
  for (const auto id : ids) *names.Add() = id == ValueId::kNone ? "" : graph.value(id).name;
}

Status add_node(const Graph& graph, const Node& node, onnx::GraphProto& proto) {
  auto* to = proto.add_node();
  to->set_name(node.name);
  to->set_op_type(node.op);
  if (!node.domain.empty()) to->set_domain(node.domain);
  if (!node.overload.empty()) to->set_overload(node.overload);
  add_names(graph, node.inputs, *to->mutable_input());
  add_names(graph, node.outputs, *to->mutable_output());
  for (const auto& attribute : node.attributes) {
    auto status = fill(attribute, *to->add_attribute());
    if (!status) return std::move(status).error().within(graph.place_of(node));
  }
  for (const auto& [key, value] : node.metadata) {
    auto* entry = to->add_metadata_props();
    entry->set_key(key);
    entry->set_value(value);
  }
  return {};
}

/// Engines infer types with ONNX's library when they load a model, and fold shapes by them. Where
/// that may tell a false size, the one that is known here keeps them from believing it.
void add_engine_sizes(const Graph& graph, const Part& part, onnx::GraphProto& proto) {
  for (const auto node_id : part.nodes) {
    const auto& node = graph.node(node_id);
    if (!node.domain.empty() || !has_engine_sizes(node.op)) continue;
    for (const auto id : node.outputs) {
      const bool inner = id != ValueId::kNone && !std::ranges::count(part.outputs, id);
      if (inner && graph.value(id).type.ranked) fill(graph.value(id), *proto.add_value_info());
    }
  }
}

/// One initialiser: its header, and how many bytes of its storage follow.
struct Entry {
  std::string header;
  std::string_view numbers;

  [[nodiscard]] std::uint64_t size() const { return header.size() + numbers.size(); }
};

Entry entry_of(const Value& value, ValueId id, const CompleteHeader& complete) {
  const Tensor& tensor = *value.constant;
  onnx::TensorProto proto;
  fill_header(tensor, value.name, proto);
  const bool numbers =
      complete(id, proto) && tensor.kind() == Tensor::Kind::kDense && tensor.bytes() > 0;
  Entry entry{proto.SerializeAsString(), {}};
  if (numbers) {
    put_header(onnx::TensorProto::kRawDataFieldNumber, tensor.bytes(), entry.header);
    entry.numbers = {static_cast<const char*>(tensor.data()), tensor.bytes()};
  }
  return entry;
}

}  // namespace

void fill(const Value& value, onnx::ValueInfoProto& proto) {
  proto.set_name(value.name);
  onnx::TypeProto type;
  if (fill(value.type, type)) *proto.mutable_type() = std::move(type);
}

Result<onnx::ModelProto> model_of(const Graph& graph, const Part& part) {
  auto model = frame_of(graph);
  auto& proto = *model.mutable_graph();
  for (const auto id : part.nodes) {
    const auto& node = graph.node(id);
    if (!node.metadata.empty() || !node.overload.empty()) {
      model.set_ir_version(std::max(model.ir_version(), kNodeMetadataIr));
    }
    PENSTOCK_CHECK_OK(add_node(graph, node, proto));
  }
  for (const auto id : part.inputs) fill(graph.value(id), *proto.add_input());
  for (const auto id : part.outputs) fill(graph.value(id), *proto.add_output());
  add_engine_sizes(graph, part, proto);
  return model;
}

Status stream(const Graph& graph, const onnx::ModelProto& model,
              const std::vector<ValueId>& constants, const CompleteHeader& complete,
              const Sink& sink) {
  onnx::ModelProto outer = model;
  outer.clear_graph();
  std::string head = outer.SerializeAsString();
  const std::string body = model.graph().SerializeAsString();
  std::vector<Entry> entries;
  std::uint64_t length = body.size();
  std::string prefix;
  for (const auto id : constants) {
    entries.push_back(entry_of(graph.value(id), id, complete));
    prefix.clear();
    put_header(onnx::GraphProto::kInitializerFieldNumber, entries.back().size(), prefix);
    length += prefix.size() + entries.back().size();
  }
  if (length + head.size() + 16 > kProtobufLimit) {
    return make_error(Code::kResourceExhausted, "graph '", graph.info.name, "': ", length,
                      " bytes in one model file, protobuf allows ", kProtobufLimit,
                      "; write the weights as external data");
  }
  put_header(onnx::ModelProto::kGraphFieldNumber, length, head);
  PENSTOCK_CHECK_OK(sink(head));
  PENSTOCK_CHECK_OK(sink(body));
  for (const auto& entry : entries) {
    prefix.clear();
    put_header(onnx::GraphProto::kInitializerFieldNumber, entry.size(), prefix);
    PENSTOCK_CHECK_OK(sink(prefix));
    PENSTOCK_CHECK_OK(sink(entry.header));
    PENSTOCK_CHECK_OK(sink(entry.numbers));
  }
  return {};
}

Result<std::string> bytes_of(const Graph& graph, const Part& part) {
  PENSTOCK_TRY(const onnx::ModelProto model, model_of(graph, part));
  std::string bytes;
  const auto all = [](ValueId, onnx::TensorProto&) { return true; };
  PENSTOCK_CHECK_OK(
      stream(graph, model, part.constants, all, [&](std::string_view piece) -> Status {
        bytes += piece;
        return {};
      }));
  return bytes;
}

}  // namespace penstock::graph
