// Runs each operator's inference of ONNX in turn, and binds and bounds the sizes of inputs.
#include "penstock/graph/inference.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <utility>

#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>

#include "penstock/base/words.h"
#include "penstock/graph/containers.h"
#include "penstock/graph/engine_sizes.h"
#include "penstock/graph/model_proto.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

using onnx::shape_inference::DataValueMap;

bool made_up(const std::string& symbol) {
  return symbol.empty() || symbol.starts_with("unk__");
}

/// `known` completed by `inferred`.
void improve(Type& known, const Type& inferred, Source source) {
  if (inferred.kind == Type::Kind::kUnknown) return;
  if (known.kind != Type::Kind::kTensor || inferred.kind != Type::Kind::kTensor) {
    if (known.kind == Type::Kind::kUnknown || inferred.kind == Type::Kind::kTensor)
      known = inferred;
    return;
  }
  known.dtype = inferred.dtype;
  if (!inferred.ranked) return;
  auto dims = inferred.dims;
  if (known.ranked && known.dims.size() == dims.size()) {
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (dims[i].fixed()) continue;
      if (known.dims[i].fixed() && source == Source::kInference) dims[i] = known.dims[i];
      if (!known.dims[i].fixed() && made_up(dims[i].symbol) && !known.dims[i].symbol.empty()) {
        dims[i].symbol = known.dims[i].symbol;
      }
      if (dims[i].bound == Dim::kOpen) dims[i].bound = known.dims[i].bound;
    }
  }
  known.ranked = true;
  known.dims = std::move(dims);
}

/// Shapes are short; whoever computes on longer lists does not compute a shape, and ONNX's library
/// would make a message of every element.
constexpr std::int64_t kLongestShape = 1024;

bool is_long_list(const onnx::TypeProto& type) {
  return type.has_tensor_type() && type.tensor_type().shape().dim_size() == 1 &&
         type.tensor_type().shape().dim(0).dim_value() > kLongestShape;
}

/// The integers of a tensor that may describe a shape.
std::optional<onnx::TensorShapeProto> shape_held_by(const onnx::TensorProto& tensor) {
  const bool list =
      tensor.dims_size() == 0 || (tensor.dims_size() == 1 && tensor.dims(0) <= kLongestShape);
  const bool integers = tensor.data_type() == onnx::TensorProto::INT64 ||
                        tensor.data_type() == onnx::TensorProto::INT32;
  if (!list || !integers) return std::nullopt;
  const auto value = tensor_of(tensor);
  if (!value) return std::nullopt;
  onnx::TensorShapeProto shape;
  const auto add = [&](std::int64_t integer) { shape.add_dim()->set_dim_value(integer); };
  if (value->dtype() == DType::kI64) {
    std::ranges::for_each(value->as<std::int64_t>(), add);
  } else {
    std::ranges::for_each(value->as<std::int32_t>(), add);
  }
  return shape;
}

std::unordered_map<std::string, int> opsets_of(const Graph& graph) {
  std::unordered_map<std::string, int> opsets;
  for (const auto& [domain, version] : graph.info.opsets) {
    opsets[domain] = static_cast<int>(version);
  }
  return opsets;
}

bool has_engine_sizes_inside(const onnx::GraphProto& graph) {
  return find_node(graph.node(), [](const onnx::NodeProto& node) {
           return node.domain().empty() && has_engine_sizes(node.op_type());
         }) != nullptr;
}

/// What a file says of the sizes inside a nested graph, ONNX's inference would rather keep than
/// take the one that an engine computes.
void forget_sizes(onnx::GraphProto& graph) {
  graph.clear_value_info();
  for (auto& output : *graph.mutable_output()) forget_shape(output);
  for (auto& node : *graph.mutable_node()) for_each_nested_graph(node, forget_sizes);
}

void forget_sizes_inside(onnx::NodeProto& node) {
  for_each_nested_graph(node, [](onnx::GraphProto& nested) {
    if (has_engine_sizes_inside(nested)) forget_sizes(nested);
  });
}

using TypesByName = std::unordered_map<std::string, onnx::TypeProto*>;

bool contradicts(const onnx::TensorShapeProto::Dimension& fed,
                 const onnx::TensorShapeProto::Dimension& told) {
  if (!told.has_dim_value()) return false;
  if (fed.has_dim_value()) return fed.dim_value() != told.dim_value();
  return !made_up(fed.dim_param());
}

/// Opens the sizes that a body tells of what it is fed with, where that has others, or frames
/// decide them: exporters leave stale ones behind. \returns whether there were any
bool open_stale_sizes(const onnx::TypeProto& fed, onnx::ValueInfoProto& told) {
  const bool have_shapes = fed.has_tensor_type() && fed.tensor_type().has_shape() &&
                           told.type().has_tensor_type() && told.type().tensor_type().has_shape();
  if (!have_shapes) return false;
  const auto& sizes = fed.tensor_type().shape();
  auto& shape = *told.mutable_type()->mutable_tensor_type()->mutable_shape();
  if (sizes.dim_size() != shape.dim_size()) {
    forget_shape(told);
    return true;
  }
  bool any = false;
  for (int axis = 0; axis < shape.dim_size(); ++axis) {
    if (!contradicts(sizes.dim(axis), shape.dim(axis))) continue;
    shape.mutable_dim(axis)->Clear();
    any = true;
  }
  return any;
}

/// The first input of a Loop or Scan that its body carries from turn to turn, and the one behind
/// the last: they stand at the same places in the body.
std::pair<int, int> carried_inputs(const onnx::NodeProto& node) {
  constexpr int kFirstOfLoop = 2;
  if (node.op_type() == "Loop") return {kFirstOfLoop, node.input_size()};
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() != "num_scan_inputs" || node.op_type() != "Scan") continue;
    return {0, node.input_size() - static_cast<int>(attribute.i())};
  }
  return {0, 0};
}

/// What the body of a Loop or Scan tells is left out where it is stale.
void forget_stale_sizes(onnx::NodeProto& node, const TypesByName& types) {
  const auto [first, end] = carried_inputs(node);
  for_each_nested_graph(node, [&](onnx::GraphProto& body) {
    bool any = false;
    for (int i = first; i < end && i < body.input_size(); ++i) {
      const auto fed = types.find(node.input(i));
      if (fed == types.end()) continue;
      any = open_stale_sizes(*fed->second, *body.mutable_input(i)) || any;
    }
    if (any) forget_sizes(body);
  });
}

using TensorsByName = std::unordered_map<std::string, const onnx::TensorProto*>;

/// Up to which number the type holds each whole one, positive or negative; 0: of other types.
std::int64_t most_whole_number(int type) {
  constexpr std::int64_t kOne = 1;
  switch (type) {
    case onnx::TensorProto::INT64:
      return std::numeric_limits<std::int64_t>::max();
    case onnx::TensorProto::INT32:
      return std::numeric_limits<std::int32_t>::max();
    case onnx::TensorProto::DOUBLE:
      return kOne << 53;
    case onnx::TensorProto::FLOAT:
      return kOne << 24;
    default:
      return 0;
  }
}

/// What an operator's data propagation sees of one node.
class PropagationContext final : public onnx::DataPropagationContext {
 public:
  PropagationContext(const onnx::NodeProto& node, const TypesByName& types,
                     const TensorsByName& tensors, DataValueMap& shapes)
      : node_(node), types_(types), tensors_(tensors), shapes_(shapes) {
    for (const auto& attribute : node.attribute()) attributes_[attribute.name()] = &attribute;
  }

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    const auto found = attributes_.find(name);
    return found == attributes_.end() ? nullptr : found->second;
  }
  std::size_t getNumInputs() const override { return static_cast<std::size_t>(node_.input_size()); }
  std::size_t getNumOutputs() const override {
    return static_cast<std::size_t>(node_.output_size());
  }
  const onnx::TypeProto* getInputType(std::size_t i) const override {
    return i < getNumInputs() ? type(node_.input(static_cast<int>(i))) : nullptr;
  }
  const onnx::TypeProto* getOutputType(std::size_t i) const override {
    return i < getNumOutputs() ? type(node_.output(static_cast<int>(i))) : nullptr;
  }

  const onnx::TensorShapeProto* getInputData(std::size_t i) override {
    if (i >= getNumInputs()) return nullptr;
    const auto& name = node_.input(static_cast<int>(i));
    if (const auto known = shapes_.find(name); known != shapes_.end()) return &known->second;
    if (const auto tensor = tensors_.find(name); tensor != tensors_.end()) {
      auto shape = shape_held_by(*tensor->second);
      return shape ? &shapes_.emplace(name, *std::move(shape)).first->second : nullptr;
    }
    // A list of known length whose elements are unknown.
    const auto* declared = type(name);
    if (declared == nullptr || !declared->has_tensor_type() || is_long_list(*declared)) {
      return nullptr;
    }
    const auto& dims = declared->tensor_type().shape();
    if (dims.dim_size() != 1 || !dims.dim(0).has_dim_value()) return nullptr;
    onnx::TensorShapeProto shape;
    for (std::int64_t k = 0; k < dims.dim(0).dim_value(); ++k) shape.add_dim();
    return &shapes_.emplace(name, std::move(shape)).first->second;
  }
  /// ONNX's functions hand on what they read, also where the output cannot hold it: a Cast to bool
  /// or to uint8 makes another number of 300.
  void addOutputData(std::size_t i, onnx::TensorShapeProto&& shape) override {
    const auto* made = getOutputType(i);
    if (made == nullptr || shape.dim_size() > kLongestShape) return;
    const auto most = most_whole_number(made->tensor_type().elem_type());
    const bool held = std::ranges::all_of(shape.dim(), [&](const auto& dim) {
      return most > 0 && dim.dim_value() <= most && dim.dim_value() >= -most;
    });
    if (held) shapes_.emplace(node_.output(static_cast<int>(i)), std::move(shape));
  }

 private:
  [[nodiscard]] const onnx::TypeProto* type(const std::string& name) const {
    const auto found = types_.find(name);
    return found == types_.end() ? nullptr : found->second;
  }

  const onnx::NodeProto& node_;
  const TypesByName& types_;
  const TensorsByName& tensors_;
  DataValueMap& shapes_;
  std::unordered_map<std::string, const onnx::AttributeProto*> attributes_;
};

/// Runs the operators' own inference over the graph, node by node: what one node gets wrong does
/// not keep the others from being known, and what the file declares helps only where an operator
/// says nothing.
class Inferencer {
 public:
  Inferencer(Graph& graph, Source source)
      : graph_(graph),
        source_(source),
        opsets_(opsets_of(graph)),
        nested_(types_, opsets_, &symbols_, no_functions_, registry_, &shapes_) {}

  Result<DataValueMap> run() {
    const auto part = inference_part(graph_);
    PENSTOCK_TRY(model_, model_of(graph_, part));
    auto& proto = *model_.mutable_graph();
    symbols_.addFromGraph(proto);
    for (const auto id : part.inputs) set_type(graph_.value(id));
    for (const auto id : part.constants) {
      const auto& value = graph_.value(id);
      auto& tensor = *proto.add_initializer();
      fill(*value.constant, value.name, tensor);
      set_type(value);
    }
    for (const auto& tensor : proto.initializer()) tensors_[tensor.name()] = &tensor;
    for (int i = 0; i < proto.node_size(); ++i) {
      auto& node = *proto.mutable_node(i);
      forget_sizes_inside(node);
      forget_stale_sizes(node, types_);
      infer(node, graph_.nodes[static_cast<std::size_t>(i)]);
    }
    return std::move(shapes_);
  }
  [[nodiscard]] std::size_t refused() const { return refused_; }

 private:
  void set_type(const Value& value) {
    auto& type = storage_[value.name];
    type.Clear();
    if (fill(value.type, type)) types_[value.name] = &type;
  }

  void infer(onnx::NodeProto& proto, const Node& node) {
    try {
      infer_by_schema(proto, node);
    } catch (const std::exception&) {
      ++refused_;  // The node's outputs stay as known as the file declares them.
    }
    for (const auto id : node.outputs) {
      if (id != ValueId::kNone && !types_.contains(graph_.value(id).name)) {
        set_type(graph_.value(id));
      }
    }
  }

  void infer_by_schema(onnx::NodeProto& proto, const Node& node) {
    const auto opset = opsets_.find(proto.domain());
    if (opset == opsets_.end()) return;
    const auto* schema = registry_->GetSchema(proto.op_type(), opset->second, proto.domain());
    if (schema == nullptr) return;
    onnx::shape_inference::InferenceContextImpl context(proto, types_, tensors_, {}, options_,
                                                        &shapes_, &nested_);
    if (schema->has_type_and_shape_inference_function()) {
      schema->GetTypeAndShapeInferenceFunction()(context);
    } else if (schema->HasFunction()) {
      infer_by_function(*schema->GetFunction(), proto, context);
    }
    for (int i = 0; i < proto.output_size(); ++i) {
      const auto id = node.outputs[static_cast<std::size_t>(i)];
      if (id == ValueId::kNone) continue;
      auto& inferred = *context.getOutputType(static_cast<std::size_t>(i));
      if (inferred.value_case() != onnx::TypeProto::VALUE_NOT_SET) {
        onnx::shape_inference::MaterializeSymbolicShape(&inferred, symbols_);
      }
      improve(graph_.values[index(id)].type, type_of(inferred), source_);
      set_type(graph_.value(id));
    }
    note_constant(proto);
    if (!schema->has_data_propagation_function()) return;
    PropagationContext propagation(proto, types_, tensors_, shapes_);
    schema->GetDataPropagationFunction()(propagation);
  }

  void infer_by_function(const onnx::FunctionProto& function, const onnx::NodeProto& node,
                         onnx::InferenceContext& context) {
    const bool long_lists = std::ranges::any_of(node.input(), [&](const std::string& name) {
      const auto type = types_.find(name);
      return type != types_.end() && is_long_list(*type->second);
    });
    const onnx::ShapeInferenceOptions options(false, 0, !long_lists);
    DataValueMap shapes;
    onnx::shape_inference::InferShapeForFunctionNode(function, registry_, context, options, {},
                                                     &symbols_, &shapes);
  }

  void note_constant(const onnx::NodeProto& node) {
    if (!is_constant(node)) return;
    for (const auto& attribute : node.attribute()) {
      if (attribute.name() == "value" && attribute.has_t()) {
        tensors_[node.output(0)] = &attribute.t();
      }
    }
  }

  Graph& graph_;
  Source source_;
  std::size_t refused_ = 0;  ///< Nodes.
  onnx::ModelProto model_;
  std::unordered_map<std::string, int> opsets_;
  std::unordered_map<std::string, onnx::TypeProto> storage_;
  TypesByName types_;
  TensorsByName tensors_;
  DataValueMap shapes_;
  onnx::shape_inference::SymbolTableImpl symbols_;
  const onnx::ISchemaRegistry* registry_ = &engine_schemas();
  // Bodies are inferred without data propagation: nothing bounds the lists in them.
  const onnx::ShapeInferenceOptions options_{false, 0, false};
  const onnx::shape_inference::ModelLocalFunctionsMap no_functions_;
  onnx::shape_inference::GraphInferenceContext nested_;
};

std::optional<std::vector<std::int64_t>> integers_of(const onnx::TensorShapeProto& data) {
  std::vector<std::int64_t> integers;
  for (const auto& dim : data.dim()) {
    if (!dim.has_dim_value()) return std::nullopt;
    integers.push_back(dim.dim_value());
  }
  return integers;
}

std::vector<ValueId> values_of_unknown_type(const Graph& graph) {
  std::vector<ValueId> unknown;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const auto& value = graph.values[i];
    const bool open = value.type.kind == Type::Kind::kUnknown ||
                      (value.type.kind == Type::Kind::kTensor && !value.type.ranked);
    if (open && value.producer) unknown.push_back(static_cast<ValueId>(i));
  }
  return unknown;
}

/// What --shape says about one dimension, laid over what the file says.
Result<Dim> merge(const Dim& declared, const Dim& wanted) {
  const auto text = [](const Dim& dim) {
    return to_string(Type::tensor(DType::kF32, std::vector<Dim>{dim})).substr(3);
  };
  if (declared.fixed()) {
    const bool fits = wanted.fixed() ? wanted.size == declared.size
                                     : wanted.bound == Dim::kOpen || declared.size <= wanted.bound;
    if (!fits) return invalid_argument("expected ", text(declared), ", found ", text(wanted));
    return declared;
  }
  Dim merged = wanted;
  merged.symbol = declared.symbol;
  return merged;
}

/// Sizes and bounds by symbol, from what --shape says of the inputs.
class Bindings {
 public:
  Status add(Value& input, const std::vector<Dim>& wanted) {
    auto& type = input.type;
    const std::string place = concat("input '", input.name, "'");
    if (type.kind != Type::Kind::kTensor) {
      return invalid_argument(place, ": expected a tensor, found ", type_text(type),
                              ", which has no dimensions to bind: leave it out here");
    }
    if (!type.ranked) type = Type::tensor(type.dtype, std::vector<Dim>(wanted.size()));
    if (type.dims.size() != wanted.size()) {
      return invalid_argument(place, ": expected ", counted(type.dims.size(), "dimension"), ", ",
                              type, ", found ", wanted.size(), "; give as many");
    }
    for (std::size_t axis = 0; axis < wanted.size(); ++axis) {
      auto& dim = type.dims[axis];
      auto merged = merge(dim, wanted[axis]);
      const auto where = concat(place, ", dimension ", axis);
      if (!merged) return std::move(merged).error().within(where);
      const bool bounds = !merged->fixed() && merged->bound != Dim::kOpen;
      if (merged->symbol.empty() && bounds) merged->symbol = concat(input.name, "_", axis);
      if (!merged->symbol.empty() && (merged->fixed() || bounds)) {
        const auto [known, fresh] = by_symbol_.emplace(merged->symbol, *merged);
        if (!fresh && !(known->second == *merged)) {
          return invalid_argument(where, ": '", merged->symbol,
                                  "' is bound elsewhere to another size; give both the same");
        }
      }
      dim = *std::move(merged);
      if (dim.fixed()) dim.symbol.clear();
    }
    return {};
  }

  void apply(Type& type) const {
    for (auto& dim : type.dims) {
      if (dim.fixed() || dim.symbol.empty()) continue;
      const auto known = by_symbol_.find(dim.symbol);
      if (known == by_symbol_.end()) continue;
      dim = known->second;
      if (dim.fixed()) dim.symbol.clear();
    }
  }

 private:
  std::map<std::string, Dim> by_symbol_;
};

bool bounded(const Dim& dim) {
  return !dim.fixed() && dim.bound != Dim::kOpen;
}

/// Every input dimension at its bound.
Graph at_the_bounds(const Graph& graph) {
  Graph largest = graph;
  std::map<std::string, std::int64_t> bounds;
  for (const auto id : graph.inputs) {
    for (const auto& dim : graph.value(id).type.dims) {
      if (bounded(dim)) bounds[dim.symbol] = dim.bound;
    }
  }
  for (auto& value : largest.values) {
    for (auto& dim : value.type.dims) {
      const auto bound = dim.fixed() ? bounds.end() : bounds.find(dim.symbol);
      if (bound != bounds.end()) dim = Dim{bound->second, {}, Dim::kOpen};
    }
  }
  return largest;
}

}  // namespace

Part inference_part(const Graph& graph) {
  Part part;
  part.inputs = graph.inputs;
  part.outputs = graph.outputs;
  part.inputs.insert(part.inputs.end(), graph.parameters.begin(), graph.parameters.end());
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) part.nodes.push_back(static_cast<NodeId>(i));
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    const auto& value = graph.values[i];
    const auto id = static_cast<ValueId>(i);
    if (!value.constant || value.is_parameter) continue;
    const bool small = value.constant->bytes() <= kInlineBytes;
    (small ? part.constants : part.inputs).push_back(id);
  }
  return part;
}

KnownIntegers infer_types(Graph& graph, Source source, std::size_t* refused) {
  KnownIntegers known;
  Inferencer inferencer(graph, source);
  const auto shapes = inferencer.run();
  if (refused != nullptr) *refused = inferencer.refused();
  if (!shapes) return known;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (!graph.values[i].producer) continue;
    const auto shape = shapes->find(graph.values[i].name);
    if (shape == shapes->end()) continue;
    if (auto integers = integers_of(shape->second)) {
      known.emplace(static_cast<ValueId>(i), *std::move(integers));
    }
  }
  return known;
}

void ask_engine(Graph& graph, const Engine& engine) {
  const auto unknown = values_of_unknown_type(graph);
  if (unknown.empty() || !engine.output_types) return;
  auto part = inference_part(graph);
  part.outputs = unknown;
  const auto model = bytes_of(graph, part);
  if (!model) return;
  const auto types = engine.output_types(*model);
  // An engine that cannot load the model leaves the types unknown: that is no error of the file.
  if (!types || (*types).size() != unknown.size()) return;
  for (std::size_t i = 0; i < unknown.size(); ++i) {
    improve(graph.values[index(unknown[i])].type, (*types)[i], Source::kInference);
  }
  infer_types(graph, Source::kInference);
}

std::string names_of_inputs(const Graph& graph) {
  if (graph.inputs.empty()) return "none";
  return join(graph.inputs, ", ",
              [&](ValueId id) { return concat("'", graph.value(id).name, "'"); });
}

Status bind_shapes(Graph& graph, const std::map<std::string, std::vector<Dim>>& shapes) {
  Bindings bindings;
  for (const auto& [name, dims] : shapes) {
    const auto input =
        std::ranges::find(graph.inputs, name, [&](ValueId id) { return graph.value(id).name; });
    if (input == graph.inputs.end()) {
      return not_found("the model has no input '", name, "'; its inputs are ",
                       names_of_inputs(graph));
    }
    PENSTOCK_CHECK_OK(bindings.add(graph.values[index(*input)], dims));
  }
  for (auto& value : graph.values) bindings.apply(value.type);
  return {};
}

void bound_dimensions(Graph& graph) {
  const bool any = std::ranges::any_of(graph.inputs, [&](ValueId id) {
    return std::ranges::any_of(graph.value(id).type.dims, bounded);
  });
  if (!any) return;
  Graph largest = at_the_bounds(graph);
  infer_types(largest, Source::kFile);
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    auto& dims = graph.values[i].type.dims;
    const auto& limits = largest.values[i].type.dims;
    if (dims.size() != limits.size()) continue;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      if (!dims[axis].fixed() && limits[axis].fixed()) dims[axis].bound = limits[axis].size;
    }
  }
}

}  // namespace penstock::graph
