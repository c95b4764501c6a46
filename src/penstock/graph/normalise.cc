// Renames old domains, sorts nodes, takes out weights and runs ONNX's checker.
#include "penstock/graph/normalise.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <onnx/checker.h>

#include "penstock/graph/no_model.h"
#include "penstock/graph/order.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/wire.h"
#include "penstock/graph/wiring.h"

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

Status settle_main(onnx::NodeProto& node, DataReader& reader, Weights& weights) {
  for (auto& attribute : *node.mutable_attribute()) {
    const bool value = is_constant(node) && attribute.name() == "value" && attribute.has_t();
    if (value && (attribute.t().data_location() == onnx::TensorProto::EXTERNAL ||
                  attribute.t().ByteSizeLong() > kInlineBytes)) {
      PENSTOCK_CHECK_OK(take(*attribute.mutable_t(), node.output(0), reader, weights));
    } else {
      PENSTOCK_CHECK_OK(settle(attribute, reader));
      if (attribute.has_g() && attribute.ByteSizeLong() > INT32_MAX) {
        return make_error(Code::kResourceExhausted, "attribute '", attribute.name(),
                          "': its graph holds over 2 GB with its weights, found ",
                          attribute.ByteSizeLong(),
                          " bytes; make the weights initialisers of the main graph")
            .within(place_of(node));
      }
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

/// The version of a domain's operators, ONNX's own by default; 0: the model names none. Of several
/// the last counts, as in ONNX Runtime.
std::int64_t opset_of(const onnx::ModelProto& model, const std::string& domain = {}) {
  std::int64_t version = 0;
  for (const auto& opset : model.opset_import()) {
    if (opset.domain() == domain) version = opset.version();
  }
  return version;
}

/// Of some operators the checker knows nothing though they run; of those that were once
/// experimental it says so on standard output, which belongs to the program.
bool is_foreign(const onnx::NodeProto& node, std::int64_t opset) {
  return onnx::checker::check_is_experimental_op(node) || is_of_onnx_runtime(node, opset);
}

/// Puts foreign operators in a domain of their own while the checker looks.
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
      if (is_foreign(node, opset_)) {
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

Result<onnx::ModelProto> parse_model(std::string_view bytes) {
  if (bytes.empty()) return not_a_model(bytes, kIsEmpty);
  const auto small = without_large_weights(bytes);
  const std::string_view rest = small ? std::string_view(*small) : bytes;
  if (rest.size() > INT32_MAX) {
    return not_a_model(bytes, "over 2 GB besides its weights; store the weights as external data");
  }
  onnx::ModelProto model;
  if (!model.ParseFromArray(rest.data(), static_cast<int>(rest.size()))) {
    return not_a_model(bytes, kIsDamaged);
  }
  if (!model.has_graph()) return not_a_model(bytes, kHoldsNoGraph);
  return model;
}

bool name_omitted_pieces(onnx::ModelProto& model) {
  std::unordered_set<std::string> names;
  std::vector<std::string*> omitted;
  const auto look_at = [&](onnx::NodeProto& node) {
    names.insert(node.input().begin(), node.input().end());
    const bool splits = node.domain().empty() && node.op_type() == "Split";
    for (auto& output : *node.mutable_output()) {
      if (!output.empty()) names.insert(output);
      if (output.empty() && splits) omitted.push_back(&output);
    }
  };
  for (const auto& input : model.graph().input()) names.insert(input.name());
  for (const auto& constant : model.graph().initializer()) names.insert(constant.name());
  for (const auto& output : model.graph().output()) names.insert(output.name());
  for_each_node(*model.mutable_graph()->mutable_node(), look_at);
  for (auto& function : *model.mutable_functions()) {
    for_each_node(*function.mutable_node(), look_at);
  }
  std::size_t number = 0;
  for (auto* name : omitted) {
    do *name = concat("omitted_piece_", number++);
    while (names.contains(*name));
  }
  return !omitted.empty();
}

namespace {

/// What a Constant node holds in one of its forms but `value`; nothing if it is none of them.
std::optional<onnx::TensorProto> written_out(const onnx::AttributeProto& attribute) {
  const std::string& form = attribute.name();
  onnx::TensorProto value;
  if (form == "sparse_value" && attribute.has_sparse_tensor()) {
    const auto dense = tensor_of(attribute.sparse_tensor());
    if (!dense) return std::nullopt;
    fill(*dense, {}, value);
  } else if (form == "value_float" || form == "value_floats") {
    value.set_data_type(onnx::TensorProto::FLOAT);
    *value.mutable_float_data() = attribute.floats();
    if (form == "value_float") value.add_float_data(attribute.f());
  } else if (form == "value_int" || form == "value_ints") {
    value.set_data_type(onnx::TensorProto::INT64);
    *value.mutable_int64_data() = attribute.ints();
    if (form == "value_int") value.add_int64_data(attribute.i());
  } else if (form == "value_string" || form == "value_strings") {
    value.set_data_type(onnx::TensorProto::STRING);
    *value.mutable_string_data() = attribute.strings();
    if (form == "value_string") value.add_string_data(attribute.s());
  } else {
    return std::nullopt;
  }
  if (!form.ends_with('s')) return value;
  value.add_dims(value.float_data_size() + value.int64_data_size() + value.string_data_size());
  return value;
}

/// What a Constant node holds; nothing: no form of it can be read.
std::optional<onnx::TensorProto> value_of(const onnx::NodeProto& node) {
  for (const auto& attribute : node.attribute()) {
    if (attribute.name() == "value" && attribute.has_t()) return attribute.t();
    if (auto value = written_out(attribute)) return value;
  }
  return std::nullopt;
}

/// Constant nodes that make what is an input, an initialiser or another Constant's output become
/// initialisers.
bool make_initialisers_of_clashing(onnx::GraphProto& graph) {
  std::map<std::string, int> sources;
  for (const auto& input : graph.input()) ++sources[input.name()];
  for (const auto& constant : graph.initializer()) ++sources[constant.name()];
  for (const auto& sparse : graph.sparse_initializer()) ++sources[sparse.values().name()];
  auto& nodes = *graph.mutable_node();
  for (auto& node : nodes) {
    if (is_constant(node)) ++sources[node.output(0)];
  }
  const auto gone = std::remove_if(nodes.begin(), nodes.end(), [&](const onnx::NodeProto& node) {
    if (!is_constant(node) || sources.at(node.output(0)) < 2) return false;
    auto value = value_of(node);
    if (!value) return false;
    value->set_name(node.output(0));
    *graph.add_initializer() = *std::move(value);
    return true;
  });
  const bool any = gone != nodes.end();
  nodes.erase(gone, nodes.end());
  return any;
}

using TypeAndDims = std::pair<std::int32_t, std::vector<std::int64_t>>;

/// Of initialisers of one name, type and shape the last stays, or the sparse one. Others that share
/// a name are for check_wiring() to refuse, as ONNX Runtime does.
bool keep_last_initialisers(onnx::GraphProto& graph) {
  std::map<std::string, TypeAndDims> later;
  for (const auto& sparse : graph.sparse_initializer()) {
    later[sparse.values().name()] = {sparse.values().data_type(),
                                     {sparse.dims().begin(), sparse.dims().end()}};
  }
  auto& constants = *graph.mutable_initializer();
  std::vector<bool> replaced(static_cast<std::size_t>(constants.size()), false);
  for (int i = constants.size() - 1; i >= 0; --i) {
    const auto& constant = constants[i];
    TypeAndDims own{constant.data_type(), {constant.dims().begin(), constant.dims().end()}};
    const auto [known, last] = later.emplace(constant.name(), own);
    replaced[static_cast<std::size_t>(i)] = !last && known->second == own;
  }
  std::size_t index = 0;
  const auto gone = std::remove_if(constants.begin(), constants.end(),
                                   [&](const auto&) { return replaced[index++]; });
  const bool any = gone != constants.end();
  constants.erase(gone, constants.end());
  return any;
}

}  // namespace

bool settle_double_constants(onnx::ModelProto& model) {
  const bool any = make_initialisers_of_clashing(*model.mutable_graph());
  return keep_last_initialisers(*model.mutable_graph()) || any;
}

bool name_known_opsets(onnx::ModelProto& model) {
  if (model.opset_import_size() == 0) return false;
  std::set<std::string> used;
  for_each_node(model.graph().node(), [&](const auto& node) { used.insert(node.domain()); });
  bool any = false;
  for (const auto& [domain, version] :
       {std::pair("ai.onnx.ml", 5), {"com.microsoft", 1}, {"com.microsoft.nchwc", 1}}) {
    if (!used.contains(domain) || opset_of(model, domain) != 0) continue;
    auto* opset = model.add_opset_import();
    opset->set_domain(domain);
    opset->set_version(version);
    any = true;
  }
  return any;
}

void normalise(onnx::ModelProto& model) {
  rename_opset(model);
  rename_domain(*model.mutable_graph()->mutable_node());
  for (auto& function : *model.mutable_functions()) {
    if (function.domain() == kOldDomain) function.set_domain("");
    rename_opset(function);
    rename_domain(*function.mutable_node());
  }
  name_graphs(*model.mutable_graph());
  name_known_opsets(model);
  settle_double_constants(model);
  name_omitted_pieces(model);
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

/// The first node of the main graph that the checker refuses, looked at in its order, which names
/// none; null: none by itself.
const onnx::NodeProto* refused_node(const onnx::ModelProto& model) {
  onnx::checker::CheckerContext context;
  context.set_ir_version(static_cast<int>(model.ir_version()));
  std::unordered_map<std::string, int> opsets;
  for (const auto& opset : model.opset_import()) {
    opsets[opset.domain()] = static_cast<int>(opset.version());
  }
  context.set_opset_imports(std::move(opsets));
  onnx::checker::LexicalScopeContext seen;
  for (const auto& input : model.graph().input()) seen.add(input.name());
  for (const auto& constant : model.graph().initializer()) seen.add(constant.name());
  for (const auto& sparse : model.graph().sparse_initializer()) seen.add(sparse.values().name());
  for (const auto& node : model.graph().node()) {
    const auto outcome = guarded(Code::kInvalidArgument, "", [&]() -> Status {
      onnx::checker::check_node(node, context, seen);
      return {};
    });
    if (!outcome) return &node;
    for (const auto& output : node.output()) seen.add(output);
  }
  return nullptr;
}

/// Whether the checker does not know the operator, or one of the attributes that the node has.
bool is_unknown(const onnx::NodeProto& node, const std::string& refused) {
  const auto says = [&](const std::string& text) { return refused.find(text) != refused.npos; };
  const auto has_unknown = [&](const onnx::AttributeProto& attribute) {
    return says(
        concat("Unrecognized attribute: ", attribute.name(), " for operator ", node.op_type()));
  };
  return says(concat("No Op registered for ", node.op_type(), " ")) ||
         std::ranges::any_of(node.attribute(), has_unknown);
}

/// A node, at any depth, of a domain whose operator set the model does not name. Foreign operators
/// are of no operator set: networks of them alone name only that of ONNX Runtime's own domain.
const onnx::NodeProto* node_without_opset(const onnx::GraphProto& graph,
                                          const std::set<std::string>& domains,
                                          std::int64_t opset) {
  return find_node(graph.node(), [&](const onnx::NodeProto& node) {
    return !domains.contains(node.domain()) && !is_foreign(node, opset);
  });
}

Status check_versions(const onnx::ModelProto& model) {
  if (model.ir_version() > onnx::Version::IR_VERSION) {
    return invalid_argument("it is of IR version ", model.ir_version(), ", and ",
                            static_cast<int>(onnx::Version::IR_VERSION),
                            " is the newest that is known here; export it for an older one "
                            "(onnx.save after model.ir_version = ",
                            static_cast<int>(kNodeMetadataIr), "), or take a newer Penstock");
  }
  std::set<std::string> domains;
  for (const auto& opset : model.opset_import()) domains.insert(opset.domain());
  for (const auto& function : model.functions()) domains.insert(function.domain());
  const auto* node = node_without_opset(model.graph(), domains, opset_of(model));
  if (node == nullptr || domains.empty()) return {};
  return Error(invalid_argument("is of domain '",
                                node->domain().empty() ? "ai.onnx" : node->domain(),
                                "', for which the model names no operator set (opset_import); it "
                                "names those of ",
                                join(domains, ", ",
                                     [](const std::string& domain) {
                                       return domain.empty() ? std::string("ai.onnx") : domain;
                                     }),
                                node->domain().empty()
                                    ? "; each engine would take its own newest: add the one that "
                                      "was meant, or export the model again"
                                    : "; add the domain's, or export the model again"))
      .within(place_of(*node));
}

}  // namespace

Status check(onnx::ModelProto& model) {
  PENSTOCK_CHECK_OK(check_versions(model));
  PENSTOCK_CHECK_OK(check_wiring(model.graph()));
  const onnx::NodeProto* node = nullptr;
  auto status = guarded(Code::kInvalidArgument, "ONNX's checker refuses it", [&]() -> Status {
    const Boundary completed(*model.mutable_graph());
    const ForeignOperators hidden(model);
    try {
      onnx::checker::check_model(model);
    } catch (...) {
      node = refused_node(model);
      throw;
    }
    return {};
  });
  if (status) return status;
  auto error = std::move(status).error();
  if (node == nullptr) return std::move(error).adding("; repair the model, or export it again");
  const auto inputs = join(node->input(), ", ", [](const auto& name) { return "'" + name + "'"; });
  const auto of_domain = node->domain().empty() ? std::string() : " of " + node->domain();
  const auto advice =
      is_unknown(*node, error.reason)
          ? concat("; it reads ", inputs,
                   "; repair the model, or export it again with the operator set that was meant "
                   "(it names ",
                   opset_of(model, node->domain()), of_domain, ")")
          : std::string("; repair the model, or export it again");
  return std::move(error).adding(advice).within(place_of(*node));
}

}  // namespace penstock::graph
