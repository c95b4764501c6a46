// Reads constants, inputs and declared types first, then the nodes, outputs and parameters.
#include "penstock/graph/builder.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

class Builder {
 public:
  Builder(const onnx::ModelProto& model, Sources sources, const ImportOptions& options)
      : model_(model), sources_(std::move(sources)), options_(options) {}

  Result<Draft> run() {
    read_info();
    read_constants();
    PENSTOCK_CHECK_OK(read_inputs());
    read_declared_types();
    for (const auto& node : model_.graph().node()) PENSTOCK_CHECK_OK(read_node(node));
    for (const auto& output : model_.graph().output()) {
      graph().outputs.push_back(value_named(output.name()));
    }
    PENSTOCK_CHECK_OK(mark_parameters());
    link(graph());
    return std::move(draft_);
  }

 private:
  Graph& graph() { return draft_.graph; }

  void read_info() {
    auto& info = graph().info;
    info.name = model_.graph().name();
    info.ir_version = model_.ir_version();
    for (const auto& opset : model_.opset_import()) info.opsets[opset.domain()] = opset.version();
    for (const auto& entry : model_.metadata_props()) info.metadata[entry.key()] = entry.value();
  }

  ValueId value_named(const std::string& name) {
    if (name.empty()) return ValueId::kNone;
    const auto [known, fresh] = by_name_.emplace(name, static_cast<ValueId>(graph().values.size()));
    if (fresh) {
      graph().values.emplace_back();
      graph().values.back().name = name;
    }
    return known->second;
  }

  Value& value(const std::string& name) { return graph().values[index(value_named(name))]; }

  void read_constants() {
    const auto add = [&](const std::string& name) {
      auto& constant = value(name);
      constant.constant = sources_.weights.at(name);
      constant.type = constant.constant->type();
    };
    for (const auto& proto : model_.graph().initializer()) add(proto.name());
    for (const auto& proto : model_.graph().sparse_initializer()) add(proto.values().name());
  }

  Status read_inputs() {
    // Before IR 4 every initialiser had to be listed; engines take those for constants.
    const bool overridable = sources_.ir_version >= 4;
    for (const auto& input : model_.graph().input()) {
      const auto id = value_named(input.name());
      auto& known = graph().values[index(id)];
      if (known.constant) {
        known.is_input = overridable && options_.as_is;
        if (overridable) draft_.defaults.insert(known.name);
        continue;
      }
      known.is_input = true;
      known.type = type_of(input.type());
      graph().inputs.push_back(id);
    }
    return {};
  }

  void read_declared_types() {
    const auto declare = [&](const onnx::ValueInfoProto& info) {
      if (info.name().empty()) return;
      // value_info may name values that no node makes: only what the graph uses is wanted.
      declared_.insert_or_assign(info.name(), &info.type());
    };
    for (const auto& info : model_.graph().value_info()) declare(info);
    for (const auto& info : model_.graph().output()) declare(info);
  }

  Status read_node(const onnx::NodeProto& proto) {
    Node node;
    node.name = proto.name();
    node.op = proto.op_type();
    node.domain = proto.domain();
    node.overload = proto.overload();
    for (const auto& name : proto.input()) node.inputs.push_back(value_named(name));
    for (const auto& name : proto.output()) node.outputs.push_back(made(name));
    PENSTOCK_CHECK_OK(read_attributes(proto, node));
    for (const auto& entry : proto.metadata_props()) node.metadata[entry.key()] = entry.value();
    read_captures(proto, node);
    int stage = -1;
    for (const auto& configuration : proto.device_configurations()) {
      if (stage < 0 && configuration.has_pipeline_stage()) stage = configuration.pipeline_stage();
    }
    graph().pipeline_stages.push_back(std::max(stage, -1));
    graph().nodes.push_back(std::move(node));
    return {};
  }

  ValueId made(const std::string& name) {
    const auto id = value_named(name);
    if (id == ValueId::kNone) return id;
    if (const auto type = declared_.find(name); type != declared_.end()) {
      graph().values[index(id)].type = type_of(*type->second);
    }
    return id;
  }

  Status read_attributes(const onnx::NodeProto& proto, Node& node) {
    const auto weight =
        is_constant(proto) ? sources_.weights.find(proto.output(0)) : sources_.weights.end();
    if (weight != sources_.weights.end() && !options_.as_is) {
      value(proto.output(0)).constant = weight->second;
    }
    for (const auto& attribute : proto.attribute()) {
      if (weight == sources_.weights.end() || attribute.name() != "value") {
        node.attributes.push_back(attribute_of(attribute));
        continue;
      }
      // As it is, the node keeps its numbers; else the value has them, and the node will go.
      auto copy = attribute;
      if (options_.as_is) {
        copy.clear_t();
        fill(weight->second, "", *copy.mutable_t());
      }
      node.attributes.push_back(attribute_of(copy));
    }
    std::ranges::sort(node.attributes, {}, &Attribute::name);
    return {};
  }

  void read_captures(const onnx::NodeProto& proto, Node& node) {
    // The order of the attributes in the file means nothing; that of the captures is hashed.
    onnx::NodeProto sorted;
    for (const auto& attribute : proto.attribute()) {
      if (attribute.has_g() || attribute.graphs_size() > 0) *sorted.add_attribute() = attribute;
    }
    std::ranges::sort(*sorted.mutable_attribute(), {},
                      [](const auto& attribute) { return attribute.name(); });
    for_each_nested_graph(std::as_const(sorted), [&](const onnx::GraphProto& nested) {
      for (const auto& name : captured_names(nested)) {
        const auto id = value_named(name);
        if (!std::ranges::count(node.captures, id)) node.captures.push_back(id);
      }
    });
  }

  Status mark_parameters() {
    for (const auto& name : options_.parameters) {
      const auto known = by_name_.find(name);
      const auto id = known == by_name_.end() ? ValueId::kNone : known->second;
      if (id == ValueId::kNone || !has_default(id)) {
        return not_found(OptionName::kParameters, ": the model has no initialiser '", name, "'; ",
                         constant_names());
      }
      auto& parameter = graph().values[index(id)];
      if (!std::exchange(parameter.is_parameter, true)) graph().parameters.push_back(id);
      parameter.is_input = false;
    }
    return {};
  }

  [[nodiscard]] std::string constant_names() const {
    constexpr std::size_t kShown = 5;
    std::vector<std::string> names;
    for (const auto& value : draft_.graph.values) {
      if (value.constant) names.push_back(concat("'", value.name, "'"));
    }
    if (names.empty()) return "it has none";
    const auto count = names.size();
    names.resize(std::min(count, kShown));
    const std::string rest =
        count > kShown ? concat(" and ", count - kShown,
                                " more, among the inputs of the nodes in 'penstock show --json'")
                       : "";
    return "it has " + join(names, ", ") + rest;
  }

  bool has_default(ValueId id) { return graph().values[index(id)].constant.has_value(); }

  const onnx::ModelProto& model_;
  Sources sources_;
  const ImportOptions& options_;
  Draft draft_;
  std::unordered_map<std::string, ValueId> by_name_;
  std::unordered_map<std::string, const onnx::TypeProto*> declared_;
};

}  // namespace

Result<Draft> draft_of(const onnx::ModelProto& model, Sources sources,
                       const ImportOptions& options) {
  return Builder(model, std::move(sources), options).run();
}

}  // namespace penstock::graph
