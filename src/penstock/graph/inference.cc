#include "penstock/graph/inference.h"

#include <algorithm>

#include <onnx/defs/schema.h>
#include <onnx/shape_inference/implementation.h>
#include "penstock/graph/model_proto.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

using onnx::shape_inference::DataValueMap;

/// All nodes; what is too large to stand in a message becomes an input.
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

bool has_schema(const Graph& graph, const Node& node) {
  const auto opset = graph.info.opsets.find(node.domain);
  if (opset == graph.info.opsets.end()) return false;
  return onnx::OpSchemaRegistry::Schema(node.op, static_cast<int>(opset->second), node.domain) !=
         nullptr;
}

/// What the file declares is believed for operators that ONNX does not know; elsewhere it may be
/// stale, and inference knows better, unless `all`.
void declare(const Graph& graph, bool all, onnx::GraphProto& proto) {
  for (const auto& node : graph.nodes) {
    if (!all && has_schema(graph, node)) continue;
    for (const auto id : node.outputs) {
      if (id == ValueId::kNone || graph.value(id).is_output) continue;
      if (graph.value(id).type.kind != Type::Kind::kUnknown) {
        fill(graph.value(id), *proto.add_value_info());
      }
    }
  }
}

void declare_outputs(const Graph& graph, bool all, onnx::GraphProto& proto) {
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    const auto& value = graph.value(graph.outputs[i]);
    const bool believed =
        all || (value.producer && !has_schema(graph, graph.node(*value.producer)));
    if (!believed) proto.mutable_output(static_cast<int>(i))->clear_type();
  }
}

bool made_up(const std::string& symbol) { return symbol.empty() || symbol.starts_with("unk__"); }

/// `known` completed by `inferred`.
void improve(Type& known, const Type& inferred, Source source) {
  if (inferred.kind == Type::Kind::kUnknown) return;
  if (known.kind != Type::Kind::kTensor || inferred.kind != Type::Kind::kTensor) {
    if (known.kind == Type::Kind::kUnknown || inferred.kind == Type::Kind::kTensor) known = inferred;
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

using TypesByName = std::map<std::string, Type>;

/// What ONNX's library says; complete or, if it gives up midway, as far as it came.
bool run_inference(const Graph& graph, bool declare_all, TypesByName& types, DataValueMap& data) {
  const auto part = inference_part(graph);
  auto built = model_of(graph, part);
  if (!built) return true;
  auto model = *std::move(built);
  auto& proto = *model.mutable_graph();
  declare(graph, declare_all, proto);
  declare_outputs(graph, declare_all, proto);
  for (const auto id : part.constants) {
    fill(*graph.value(id).constant, graph.value(id).name, *proto.add_initializer());
  }
  bool complete = true;
  try {
    const onnx::ShapeInferenceOptions options(false, 0, true);
    onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), options, &data);
  } catch (const std::exception&) {
    complete = false;
  }
  const auto take = [&](const onnx::ValueInfoProto& info) {
    auto type = type_of(info.type());
    if (type.kind != Type::Kind::kUnknown) types[info.name()] = std::move(type);
  };
  for (const auto& info : proto.value_info()) take(info);
  for (const auto& info : proto.output()) take(info);
  return complete;
}

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

std::string names_of(const Graph& graph, const std::vector<ValueId>& ids) {
  if (ids.empty()) return "none";
  return join(ids, ", ", [&](ValueId id) { return concat("'", graph.value(id).name, "'"); });
}

/// What --shape says about one dimension, laid over what the file says.
Result<Dim> merge(const Dim& declared, const Dim& wanted) {
  const auto text = [](const Dim& dim) { return to_string(Type::tensor(DType::kF32, std::vector<Dim>{dim})).substr(3); };
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
      return invalid_argument(place, ": expected a tensor, found ", type,
                              ", which has no dimensions to bind");
    }
    if (!type.ranked) type = Type::tensor(type.dtype, std::vector<Dim>(wanted.size()));
    if (type.dims.size() != wanted.size()) {
      return invalid_argument(place, ": expected ", type.dims.size(), " dimensions, ", type,
                              ", found ", wanted.size());
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

bool bounded(const Dim& dim) { return !dim.fixed() && dim.bound != Dim::kOpen; }

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

KnownIntegers infer_types(Graph& graph, Source source) {
  TypesByName types;
  DataValueMap data;
  if (!run_inference(graph, false, types, data)) {
    TypesByName more;
    DataValueMap ignored;
    run_inference(graph, true, more, ignored);
    types.merge(more);
  }
  KnownIntegers known;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    auto& value = graph.values[i];
    if (!value.producer) continue;
    if (const auto type = types.find(value.name); type != types.end()) {
      improve(value.type, type->second, source);
    }
    const auto shape = data.find(value.name);
    if (shape == data.end()) continue;
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

Status bind_shapes(Graph& graph, const std::map<std::string, std::vector<Dim>>& shapes) {
  Bindings bindings;
  for (const auto& [name, dims] : shapes) {
    const auto input = std::ranges::find(graph.inputs, name,
                                         [&](ValueId id) { return graph.value(id).name; });
    if (input == graph.inputs.end()) {
      return not_found("--shape: the model has no input '", name, "'; its inputs are ",
                       names_of(graph, graph.inputs));
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
