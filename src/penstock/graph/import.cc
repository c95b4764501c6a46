#include "penstock/graph/import.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <unordered_set>

#include "penstock/graph/bind.h"
#include "penstock/graph/branches.h"
#include "penstock/graph/clean.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/external_data.h"
#include "penstock/graph/fold.h"
#include "penstock/graph/inference.h"
#include "penstock/graph/normalise.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/wire.h"

namespace penstock::graph {
namespace {

namespace fs = std::filesystem;

Error not_a_model(const std::string& why) {
  return make_error(Code::kDataLoss, "not an ONNX model (", why, "); export or copy it again");
}

Result<onnx::ModelProto> parse(std::string_view bytes) {
  if (bytes.empty()) return not_a_model("it is empty");
  const auto small = without_large_weights(bytes);
  const std::string_view rest = small ? std::string_view(*small) : bytes;
  if (rest.size() > INT32_MAX) {
    return not_a_model("over 2 GB besides its weights; store the weights as external data");
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
    return not_a_model("it is truncated, or no protobuf message");
  }
  if (!model.has_graph()) return not_a_model("it holds no graph");
  return model;
}

/// What the model said before normalisation, and what else the builder needs.
struct Sources {
  std::int64_t ir_version = 0;
  Weights weights;
};

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
    const bool overridable = options_.as_is && sources_.ir_version >= 4;
    for (const auto& input : model_.graph().input()) {
      const auto id = value_named(input.name());
      auto& known = graph().values[index(id)];
      if (known.constant) {
        known.is_input = overridable;
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
    const bool constant = proto.op_type() == "Constant" && proto.output_size() == 1;
    const auto weight = constant ? sources_.weights.find(proto.output(0)) : sources_.weights.end();
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
        return not_found("--parameter: the model has no initialiser '", name, "'; ",
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

void note_functions(const onnx::ModelProto& model, std::map<std::string, Removal>& removals) {
  std::unordered_set<std::string> functions;
  for (const auto& function : model.functions()) {
    functions.insert(function.domain() + '\n' + function.name());
  }
  for (const auto& node : model.graph().node()) {
    if (node.name().empty() || !functions.contains(node.domain() + '\n' + node.op_type())) continue;
    const std::string by = node.output_size() > 0 ? node.output(0) : "";
    removals.try_emplace(node.name(),
                         Removal{"removed, a function that was inlined; what makes its output is "
                                 "the node before",
                                 by});
  }
}

/// Constants that the user wants to name as parameters may come from Constant nodes too.
Status make_parameters_of_nodes(const onnx::ModelProto& model, const ImportOptions& options,
                                DataReader& reader, Weights& weights) {
  if (options.as_is) return {};
  for (const auto& node : model.graph().node()) {
    if (node.op_type() != "Constant" || node.output_size() != 1) continue;
    if (!std::ranges::count(options.parameters, node.output(0))) continue;
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() != "value" || weights.contains(node.output(0))) continue;
      PENSTOCK_TRY(Tensor tensor, reader.read(attribute.t()));
      weights.emplace(node.output(0), std::move(tensor));
    }
  }
  return {};
}

Result<Draft> build(onnx::ModelProto model, DataReader& reader, const ImportOptions& options) {
  Sources sources;
  sources.ir_version = model.ir_version();
  normalise(model);
  PENSTOCK_TRY(sources.weights, take_weights(model, reader));
  PENSTOCK_CHECK_OK(check(model));
  PENSTOCK_CHECK_OK(make_parameters_of_nodes(model, options, reader, sources.weights));
  std::map<std::string, Removal> inlined;
  note_functions(model, inlined);
  PENSTOCK_CHECK_OK(inline_functions(model));
  PENSTOCK_TRY(Draft draft, Builder(model, std::move(sources), options).run());
  draft.removals.merge(inlined);
  return draft;
}

void measure_constants(Draft& draft) {
  for (const auto& value : draft.graph.values) {
    if (value.constant) draft.file_constant_bytes += value.constant->bytes();
  }
}

/// Each round knows more shapes than the one before, and so may fold more.
Status fold(Draft& draft, const Engine& engine) {
  auto& nodes = draft.graph.nodes;
  // A round that folds something removes at least one node.
  const std::size_t rounds = nodes.size() + 1;
  auto source = Source::kFile;
  bool ask = true;
  for (std::size_t i = 0; i < rounds; ++i) {
    const auto known = infer_types(draft.graph, source);
    source = Source::kInference;
    if (ask) ask_engine(draft.graph, engine);
    auto before = nodes.size();
    bool changed = fold_known_integers(draft, known);
    draft.graph.import.folded_nodes += before - nodes.size();
    PENSTOCK_TRY(ask, take_known_branches(draft));
    before = nodes.size();
    changed = fold_constants(draft, engine) || changed;
    draft.graph.import.folded_nodes += before - nodes.size();
    if (!changed && !ask) return {};
    remove_identities(draft);
    remove_dead(draft);
  }
  return {};
}

Status clean(Draft& draft, const Engine& engine) {
  PENSTOCK_CHECK_OK(make_constants(draft));
  remove_identities(draft);
  remove_dead(draft);
  measure_constants(draft);
  return fold(draft, engine);
}

/// ONNX's checker sees the file; inlined functions and captures can still close a circle.
Status check_order(const Graph& graph) {
  std::vector<bool> awaited(graph.values.size(), false);
  for (const auto& node : graph.nodes) {
    for (const auto id : node.outputs) {
      if (id != ValueId::kNone) awaited[index(id)] = true;
    }
  }
  for (const auto& node : graph.nodes) {
    for (const auto* list : {&node.inputs, &node.captures}) {
      for (const auto id : *list) {
        if (id == ValueId::kNone || !awaited[index(id)]) continue;
        return invalid_argument("node '", node.name, "' (", node.op, "): reads '",
                                graph.value(id).name,
                                "', which this node or a later one makes; nodes must be in order");
      }
    }
    for (const auto id : node.outputs) {
      if (id != ValueId::kNone) awaited[index(id)] = false;
    }
  }
  return {};
}

Result<Graph> import_from(std::string_view bytes, std::shared_ptr<const MappedFile> file,
                          const fs::path& folder, const ImportOptions& options) {
  DataReader reader(bytes, std::move(file), folder);
  PENSTOCK_TRY(onnx::ModelProto model, parse(bytes));
  PENSTOCK_TRY(Draft draft, build(std::move(model), reader, options));
  PENSTOCK_CHECK_OK(check_order(draft.graph));
  PENSTOCK_CHECK_OK(bind_shapes(draft.graph, options.shapes));
  PENSTOCK_CHECK_OK(bind_inputs(draft, options.constants));
  draft.graph.import.file_nodes = draft.graph.nodes.size();
  draft.graph.import.not_folded = !options.as_is && !options.engine.evaluate;
  if (options.as_is) {
    infer_types(draft.graph, Source::kFile);
    ask_engine(draft.graph, options.engine);
  } else {
    PENSTOCK_CHECK_OK(clean(draft, options.engine));
  }
  bound_dimensions(draft.graph);
  name_nodes(draft.graph);
  explain_removals(draft);
  return std::move(draft.graph);
}

std::optional<std::int64_t> parse_size(std::string_view text) {
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), size);
  if (error != std::errc() || end != text.data() + text.size() || size < 0) return std::nullopt;
  return size;
}

std::optional<Dim> parse_dim(std::string_view text) {
  if (text == "?") return Dim{};
  const auto dots = text.find("..");
  if (dots == std::string_view::npos) {
    const auto size = parse_size(text);
    return size ? std::optional(Dim{*size, {}, Dim::kOpen}) : std::nullopt;
  }
  const auto least = parse_size(text.substr(0, dots));
  const auto most = parse_size(text.substr(dots + 2));
  if (least != 1 || !most || *most < 1) return std::nullopt;
  return Dim{Dim::kOpen, {}, *most};
}

}  // namespace

Result<std::pair<std::string, std::vector<Dim>>> parse_shape(const std::string& text) {
  const auto refuse = [&] {
    return invalid_argument(
        "--shape '", text,
        "': expected NAME=SIZExSIZE..., each a size, 1..MOST (no other least than 1) "
        "or ?, such as x=1x3x224x224 or ids=1x1..512");
  };
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) return refuse();
  std::vector<Dim> dims;
  std::string_view rest = std::string_view(text).substr(equals + 1);
  while (!rest.empty()) {
    const auto cross = rest.find('x');
    const auto dim = parse_dim(rest.substr(0, cross));
    const bool dangling = cross != std::string_view::npos && cross + 1 == rest.size();
    if (!dim || dangling) return refuse();
    dims.push_back(*dim);
    rest = cross == std::string_view::npos ? std::string_view() : rest.substr(cross + 1);
  }
  return std::make_pair(text.substr(0, equals), std::move(dims));
}

Result<std::pair<std::string, std::string>> parse_constant(const std::string& text) {
  const auto equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    return invalid_argument("--constant '", text,
                            "': expected NAME=VALUE, a value such as 16000, true or [1, 2], or an "
                            ".npy file");
  }
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

Result<Graph> import_onnx(const fs::path& file, const ImportOptions& options) {
  PENSTOCK_TRY(auto mapped, MappedFile::open(file));
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  auto graph = guarded(Code::kDataLoss, "not an ONNX model",
                       [&] { return import_from(mapped->bytes(), mapped, folder, options); });
  if (!graph) return std::move(graph).error().within({Where::kFile, file.string()});
  (*graph).import.file = file;
  return graph;
}

Result<Graph> import_onnx_bytes(std::string_view bytes, const fs::path& folder,
                                const ImportOptions& options) {
  auto graph = guarded(Code::kDataLoss, "not an ONNX model",
                       [&] { return import_from(bytes, nullptr, folder, options); });
  if (!graph) return std::move(graph).error().within("model");
  return graph;
}

}  // namespace penstock::graph
