// Renames old domains, sorts nodes, takes out weights, runs ONNX's checker and inlines functions.
#include "penstock/graph/normalise.h"

#include <algorithm>
#include <array>
#include <map>
#include <unordered_set>

#include <onnx/checker.h>
#include <onnx/inliner/inliner.h>

#include "penstock/graph/order.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

constexpr const char* kOldDomain = "ai.onnx";
constexpr std::int64_t kOpsetsIr = 3;

template <typename Nodes>
void rename_domain(Nodes& nodes) {
  for (auto& node : nodes) {
    if (node.domain() == kOldDomain) node.clear_domain();
    for_each_nested_graph(node,
                          [](onnx::GraphProto& nested) { rename_domain(*nested.mutable_node()); });
  }
}

template <typename Proto>
void rename_opset(Proto& proto) {
  for (auto& opset : *proto.mutable_opset_import()) {
    if (opset.domain() == kOldDomain) opset.set_domain("");
  }
}

void name_graphs(onnx::GraphProto& graph) {
  if (graph.name().empty()) graph.set_name("graph");
  for (auto& node : *graph.mutable_node()) for_each_nested_graph(node, name_graphs);
}

void unlist_initialisers(onnx::GraphProto& graph) {
  std::unordered_set<std::string> constants;
  for (const auto& constant : graph.initializer()) constants.insert(constant.name());
  auto& inputs = *graph.mutable_input();
  const auto gone = std::remove_if(inputs.begin(), inputs.end(), [&](const auto& input) {
    return constants.contains(input.name());
  });
  inputs.erase(gone, inputs.end());
}

void unlist_in_nested(onnx::GraphProto& graph) {
  for (auto& node : *graph.mutable_node()) {
    for_each_nested_graph(node, [](onnx::GraphProto& nested) {
      unlist_initialisers(nested);
      unlist_in_nested(nested);
    });
  }
}

/// The checker wants numbers, whichever they are.
void stand_in(onnx::TensorProto& proto, bool empty) {
  onnx::TensorProto small;
  small.set_name(proto.name());
  small.set_data_type(proto.data_type());
  *small.mutable_dims() = proto.dims();
  // Of packed kinds it counts the bytes.
  if (bits_of(static_cast<DType>(proto.data_type())) < 8)
    small.set_data_type(onnx::TensorProto::UINT8);
  if (!empty) small.set_raw_data(std::string(1, '\0'));
  proto = std::move(small);
}

/// `name` by value: it may be the message's own, which the stand-in replaces.
Status take(onnx::TensorProto& proto, std::string name, DataReader& reader, Weights& weights) {
  PENSTOCK_TRY(Tensor tensor, reader.read(proto));
  const bool elsewhere = proto.data_location() == onnx::TensorProto::EXTERNAL;
  const bool dense = tensor.kind() == Tensor::Kind::kDense;
  if (dense && (elsewhere || tensor.bytes() > kInlineBytes)) {
    stand_in(proto, tensor.bytes() == 0);
  }
  weights.insert_or_assign(std::move(name), std::move(tensor));
  return {};
}

Status settle_nested(onnx::GraphProto& graph, DataReader& reader);

/// Everything that is not an initialiser or Constant of the main graph stays in its message.
Status settle(onnx::AttributeProto& attribute, DataReader& reader) {
  if (attribute.has_t()) PENSTOCK_CHECK_OK(reader.make_inline(*attribute.mutable_t()));
  for (auto& tensor : *attribute.mutable_tensors()) PENSTOCK_CHECK_OK(reader.make_inline(tensor));
  if (attribute.has_sparse_tensor()) {
    PENSTOCK_TRY(const Tensor readable, tensor_of(attribute.sparse_tensor()));
  }
  for (const auto& sparse : attribute.sparse_tensors()) {
    PENSTOCK_TRY(const Tensor readable, tensor_of(sparse));
  }
  if (attribute.has_g()) PENSTOCK_CHECK_OK(settle_nested(*attribute.mutable_g(), reader));
  for (auto& graph : *attribute.mutable_graphs()) PENSTOCK_CHECK_OK(settle_nested(graph, reader));
  return {};
}

Status settle_nested(onnx::GraphProto& graph, DataReader& reader) {
  for (auto& constant : *graph.mutable_initializer()) {
    PENSTOCK_CHECK_OK(reader.make_inline(constant));
  }
  for (const auto& sparse : graph.sparse_initializer()) {
    PENSTOCK_TRY(const Tensor readable, tensor_of(sparse));
  }
  for (auto& node : *graph.mutable_node()) {
    for (auto& attribute : *node.mutable_attribute()) PENSTOCK_CHECK_OK(settle(attribute, reader));
  }
  return {};
}

bool is_constant(const onnx::NodeProto& node) {
  return node.op_type() == "Constant" && node.domain().empty() && node.output_size() == 1 &&
         !node.output(0).empty();
}

Status settle_main(onnx::NodeProto& node, DataReader& reader, Weights& weights) {
  for (auto& attribute : *node.mutable_attribute()) {
    const bool value = is_constant(node) && attribute.name() == "value" && attribute.has_t();
    if (value && (attribute.t().data_location() == onnx::TensorProto::EXTERNAL ||
                  attribute.t().ByteSizeLong() > kInlineBytes)) {
      PENSTOCK_CHECK_OK(take(*attribute.mutable_t(), node.output(0), reader, weights));
    } else {
      PENSTOCK_CHECK_OK(settle(attribute, reader));
    }
  }
  return {};
}

/// The checker insists on shapes at the boundary, which operators of other domains may leave open.
/// Gives those that lack one an empty shape, and takes it away again.
class Boundary {
 public:
  explicit Boundary(onnx::GraphProto& graph) {
    for (auto* list : {graph.mutable_input(), graph.mutable_output()}) {
      for (auto& info : *list) complete(info);
    }
  }
  Boundary(const Boundary&) = delete;
  Boundary& operator=(const Boundary&) = delete;
  ~Boundary() {
    for (auto* info : untyped_) info->clear_type();
    for (auto* tensor : unshaped_) tensor->clear_shape();
  }

 private:
  void complete(onnx::ValueInfoProto& info) {
    if (info.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) {
      untyped_.push_back(&info);
      info.mutable_type()->mutable_tensor_type()->set_elem_type(onnx::TensorProto::FLOAT);
      info.mutable_type()->mutable_tensor_type()->mutable_shape();
    } else if (info.type().has_tensor_type() && !info.type().tensor_type().has_shape()) {
      unshaped_.push_back(info.mutable_type()->mutable_tensor_type());
      unshaped_.back()->mutable_shape();
    }
  }

  std::vector<onnx::ValueInfoProto*> untyped_;
  std::vector<onnx::TypeProto_Tensor*> unshaped_;
};

/// Operators that ONNX Runtime has in ONNX's domain though ONNX has none such, or (of the second)
/// has them since operator set 17 only. Networks that it optimised, and language models, hold them.
bool is_of_onnx_runtime(const onnx::NodeProto& node, std::int64_t opset) {
  constexpr std::int64_t kLayerNormalizationSince = 17;
  if (!node.domain().empty()) return false;
  return node.op_type() == "SimplifiedLayerNormalization" ||
         (node.op_type() == "LayerNormalization" && opset < kLayerNormalizationSince);
}

/// The version of ONNX's own operators; 0: the model names none.
std::int64_t opset_of(const onnx::ModelProto& model) {
  const auto found = std::ranges::find_if(model.opset_import(),
                                          [](const auto& opset) { return opset.domain().empty(); });
  return found == model.opset_import().end() ? 0 : found->version();
}

/// Of some operators the checker knows nothing though they run; of those that were once
/// experimental it says so on standard output, which belongs to the program. Puts them in a domain
/// of their own for the while.
class ForeignOperators {
 public:
  explicit ForeignOperators(onnx::ModelProto& model) : model_(model), opset_(opset_of(model)) {
    hide(*model.mutable_graph());
    if (hidden_.empty()) return;
    auto* opset = model.add_opset_import();
    opset->set_domain(kDomain);
    opset->set_version(1);
  }
  ForeignOperators(const ForeignOperators&) = delete;
  ForeignOperators& operator=(const ForeignOperators&) = delete;
  ~ForeignOperators() {
    for (auto* node : hidden_) node->clear_domain();
    if (!hidden_.empty()) model_.mutable_opset_import()->RemoveLast();
  }

 private:
  static constexpr const char* kDomain = "penstock.foreign";

  void hide(onnx::GraphProto& graph) {
    for (auto& node : *graph.mutable_node()) {
      if (onnx::checker::check_is_experimental_op(node) || is_of_onnx_runtime(node, opset_)) {
        hidden_.push_back(&node);
        node.set_domain(kDomain);
      }
      for_each_nested_graph(node, [this](onnx::GraphProto& nested) { hide(nested); });
    }
  }

  onnx::ModelProto& model_;
  std::int64_t opset_;
  std::vector<onnx::NodeProto*> hidden_;
};

}  // namespace

void normalise(onnx::ModelProto& model) {
  rename_opset(model);
  rename_domain(*model.mutable_graph()->mutable_node());
  for (auto& function : *model.mutable_functions()) {
    if (function.domain() == kOldDomain) function.set_domain("");
    rename_opset(function);
    rename_domain(*function.mutable_node());
  }
  name_graphs(*model.mutable_graph());
  sort_nodes(model);
  model.clear_training_info();
  if (!model.has_ir_version() || model.ir_version() < 1) return;
  if (model.ir_version() < kOpsetsIr && model.opset_import_size() == 0) {
    model.add_opset_import()->set_version(1);
  }
  if (model.ir_version() >= kFreeInitialisersIr) return;
  unlist_in_nested(*model.mutable_graph());
  model.set_ir_version(kFreeInitialisersIr);
}

Result<Weights> take_weights(onnx::ModelProto& model, DataReader& reader) {
  Weights weights;
  auto& graph = *model.mutable_graph();
  for (auto& constant : *graph.mutable_initializer()) {
    PENSTOCK_CHECK_OK(take(constant, constant.name(), reader, weights));
  }
  for (const auto& sparse : graph.sparse_initializer()) {
    PENSTOCK_TRY(Tensor tensor, tensor_of(sparse));
    weights.insert_or_assign(sparse.values().name(), std::move(tensor));
  }
  for (auto& node : *graph.mutable_node()) {
    PENSTOCK_CHECK_OK(settle_main(node, reader, weights));
  }
  for (auto& function : *model.mutable_functions()) {
    for (auto& node : *function.mutable_node()) {
      for (auto& attribute : *node.mutable_attribute()) {
        PENSTOCK_CHECK_OK(settle(attribute, reader));
      }
    }
  }
  return weights;
}

namespace {

/// The first node of an operator that the checker does not know, or with an attribute that the
/// operator does not have: it names no node there.
const onnx::NodeProto* unknown_node(const onnx::GraphProto& graph, const std::string& refused) {
  const auto says = [&](const std::string& text) { return refused.find(text) != refused.npos; };
  for (const auto& node : graph.node()) {
    const auto has_unknown = [&](const onnx::AttributeProto& attribute) {
      return says(
          concat("Unrecognized attribute: ", attribute.name(), " for operator ", node.op_type()));
    };
    if (says(concat("No Op registered for ", node.op_type(), " ")) ||
        std::ranges::any_of(node.attribute(), has_unknown)) {
      return &node;
    }
  }
  return nullptr;
}

}  // namespace

Status check(onnx::ModelProto& model) {
  auto status = guarded(Code::kInvalidArgument, "ONNX's checker refuses it", [&]() -> Status {
    const Boundary completed(*model.mutable_graph());
    const ForeignOperators hidden(model);
    onnx::checker::check_model(model);
    return {};
  });
  if (status) return status;
  const auto mends = concat(
      "; repair the model, or export it again with the operator set that was meant (it names ",
      opset_of(model), ")");
  const auto* node = unknown_node(model.graph(), status.error().reason);
  if (node == nullptr) return std::move(status).error().adding(mends);
  const auto inputs = join(node->input(), ", ", [](const auto& name) { return "'" + name + "'"; });
  return std::move(status)
      .error()
      .adding(concat("; it reads ", inputs, mends))
      .within({{Where::kNode, node->name()}, {Where::kOperator, node->op_type()}});
}

namespace {

/// Functions by domain, name and overload.
using Functions = std::map<std::array<std::string, 3>, const onnx::FunctionProto*>;

/// ONNX's inliner forgets the values that a function's attributes have where a call gives none.
template <typename Nodes>
void give_defaults(Nodes& nodes, const Functions& functions) {
  for (onnx::NodeProto& node : nodes) {
    for_each_nested_graph(
        node, [&](onnx::GraphProto& nested) { give_defaults(*nested.mutable_node(), functions); });
    const auto called = functions.find({node.domain(), node.op_type(), node.overload()});
    if (called == functions.end()) continue;
    for (const auto& usual : called->second->attribute_proto()) {
      const bool given = std::ranges::any_of(
          node.attribute(), [&](const auto& own) { return own.name() == usual.name(); });
      if (!given) *node.add_attribute() = usual;
    }
  }
}

}  // namespace

Status inline_functions(onnx::ModelProto& model) {
  if (model.functions_size() == 0) return {};
  Functions functions;
  for (const auto& function : model.functions()) {
    functions[{function.domain(), function.name(), function.overload()}] = &function;
  }
  give_defaults(*model.mutable_graph()->mutable_node(), functions);
  for (auto& function : *model.mutable_functions()) {
    give_defaults(*function.mutable_node(), functions);
  }
  return guarded(Code::kUnimplemented, "functions cannot be inlined", [&]() -> Status {
    onnx::inliner::InlineLocalFunctions(model, true);
    if (model.functions_size() == 0) return {};
    const auto& left = model.functions(0);
    return make_error(Code::kUnimplemented, "function '", left.domain(), ".", left.name(),
                      "' cannot be inlined: it needs another operator set than the model; convert "
                      "the model with onnx.version_converter");
  });
}

}  // namespace penstock::graph
