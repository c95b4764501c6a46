// Puts a Constant and a Reshape in front of each such node, in place.
#include "penstock/graph/reshape_before.h"

#include <algorithm>
#include <utility>

#include "penstock/graph/external_data.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

/// ONNX's own, by both its names, and that of ONNX Runtime.
bool is_known_domain(const std::string& domain) {
  return domain.empty() || domain == "ai.onnx" || domain == "com.microsoft";
}

class Writer {
 public:
  explicit Writer(const std::vector<ReshapeRule>& rules) : rules_(rules) {}

  /// `Holder`: a graph or a function.
  template <typename Holder>
  void rewrite(Holder& holder) {
    auto nodes = std::move(*holder.mutable_node());
    holder.clear_node();
    for (auto& node : nodes) {
      for_each_nested_graph(node, [&](onnx::GraphProto& nested) { rewrite(nested); });
      const auto rule = std::ranges::find(rules_, node.op_type(), &ReshapeRule::op);
      if (rule != rules_.end() && is_known_domain(node.domain()) && node.input_size() > 0) {
        reshape(node, rule->target, *holder.mutable_node());
      }
      *holder.add_node() = std::move(node);
    }
  }

  std::vector<std::vector<Where>> places;

 private:
  /// Names are unique in the whole model, as graphs see those around them.
  template <typename Nodes>
  void reshape(onnx::NodeProto& node, const std::vector<std::int64_t>& target, Nodes& nodes) {
    const std::string name = concat(kReshapeName, places.size());
    places.push_back(place_of(node));
    auto& shape = *nodes.Add();
    shape.set_op_type("Constant");
    shape.add_output(concat(name, " target"));
    auto& value = *shape.add_attribute();
    value.set_name("value");
    value.set_type(onnx::AttributeProto::TENSOR);
    value.mutable_t()->set_data_type(onnx::TensorProto::INT64);
    value.mutable_t()->add_dims(static_cast<std::int64_t>(target.size()));
    for (const auto size : target) value.mutable_t()->add_int64_data(size);
    auto& made = *nodes.Add();
    made.set_op_type("Reshape");
    made.set_name(name);
    made.add_input(node.input(0));
    made.add_input(shape.output(0));
    made.add_output(name);
    node.set_input(0, name);
  }

  const std::vector<ReshapeRule>& rules_;
};

Result<Reshaped> reshaped(std::string_view bytes, const std::vector<ReshapeRule>& rules) {
  onnx::ModelProto model;
  const auto size = static_cast<int>(bytes.size());
  if (!std::in_range<int>(bytes.size()) || !model.ParseFromArray(bytes.data(), size)) {
    return make_error(Code::kDataLoss, "not an ONNX model, or one of more than 2 GB");
  }
  Writer writer(rules);
  writer.rewrite(*model.mutable_graph());
  for (auto& function : *model.mutable_functions()) writer.rewrite(function);
  Reshaped made{{}, std::move(writer.places)};
  if (!model.SerializeToString(&made.bytes)) {
    return make_error(Code::kResourceExhausted, "a model of more than 2 GB");
  }
  return made;
}

}  // namespace

Result<Reshaped> with_reshapes(const std::filesystem::path& file, std::string_view bytes,
                               const std::vector<ReshapeRule>& rules) {
  return guarded(Code::kDataLoss, "not an ONNX model", [&]() -> Result<Reshaped> {
    if (file.empty()) return reshaped(bytes, rules);
    PENSTOCK_TRY(const auto mapped, MappedFile::open(file));
    return reshaped(mapped->bytes(), rules);
  });
}

}  // namespace penstock::graph
