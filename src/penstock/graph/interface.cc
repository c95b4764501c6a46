// Walks the fields of the serialised model and parses only the messages of inputs and outputs.
#include "penstock/graph/interface.h"

#include <algorithm>
#include <set>
#include <utility>

#include "penstock/graph/external_data.h"
#include "penstock/graph/no_model.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/wire.h"

namespace penstock::graph {
namespace {

bool read_entry(std::string_view bytes, std::vector<Interface::Entry>& entries) {
  onnx::ValueInfoProto proto;
  if (!proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) return false;
  entries.push_back({proto.name(), type_of(proto.type())});
  return true;
}

/// The name in a TensorProto, its numbers passed over.
bool read_name(std::string_view tensor, std::set<std::string>& names) {
  return visit_fields(tensor, [&](std::uint32_t number, std::string_view content) {
    if (number == onnx::TensorProto::kNameFieldNumber) names.emplace(content);
    return true;
  });
}

bool read_graph(std::string_view graph, Interface& interface) {
  std::set<std::string> initialisers;
  const bool whole = visit_fields(graph, [&](std::uint32_t number, std::string_view content) {
    switch (number) {
      case onnx::GraphProto::kInputFieldNumber:
        return read_entry(content, interface.inputs);
      case onnx::GraphProto::kOutputFieldNumber:
        return read_entry(content, interface.outputs);
      case onnx::GraphProto::kInitializerFieldNumber:
        return read_name(content, initialisers);
      case onnx::GraphProto::kSparseInitializerFieldNumber:
        return visit_fields(content, [&](std::uint32_t inner, std::string_view values) {
          return inner != onnx::SparseTensorProto::kValuesFieldNumber ||
                 read_name(values, initialisers);
        });
      default:
        return true;
    }
  });
  std::erase_if(interface.inputs,
                [&](const auto& input) { return initialisers.contains(input.name); });
  return whole;
}

}  // namespace

Result<Interface> read_interface_bytes(std::string_view model) {
  Interface interface;
  bool found = false;
  const bool whole = visit_fields(model, [&](std::uint32_t number, std::string_view content) {
    if (number != onnx::ModelProto::kGraphFieldNumber) return true;
    found = true;
    return read_graph(content, interface);
  });
  if (model.empty()) return not_a_model(model, kIsEmpty);
  if (!whole) return not_a_model(model, kIsDamaged);
  if (!found) return not_a_model(model, kHoldsNoGraph);
  return interface;
}

Result<Interface> read_interface(const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto mapped, MappedFile::open(file));
  return read_interface_bytes(mapped->bytes());
}

}  // namespace penstock::graph
