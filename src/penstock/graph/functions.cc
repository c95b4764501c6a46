// Compares the schemas of what functions use in the operator sets that they and the model name.
#include "penstock/graph/functions.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <onnx/defs/schema.h>
#include <onnx/inliner/inliner.h>

#include "penstock/graph/contrib_operators.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

using onnx::OpSchema;

/// What is written for one version of a domain's operator set.
struct Written {
  std::string name;  ///< Of the function; empty: the model's graph.
  const Nodes* nodes;
  onnx::OperatorSetIdProto* opset;
};

/// How many inputs and outputs the node has.
bool takes(const OpSchema& schema, const onnx::NodeProto& node) {
  return node.input_size() >= schema.min_input() && node.input_size() <= schema.max_input() &&
         node.output_size() >= schema.min_output() && node.output_size() <= schema.max_output();
}

/// Each attribute of `a` is one of `b` too, or an optional one that the node does not give.
bool has_attributes_of(const OpSchema& a, const OpSchema& b, const onnx::NodeProto& node) {
  return std::ranges::all_of(a.attributes(), [&](const auto& entry) {
    const auto& [name, own] = entry;
    const auto other = b.attributes().find(name);
    if (other == b.attributes().end()) {
      return !own.required && std::ranges::none_of(node.attribute(), [&](const auto& given) {
        return given.name() == entry.first;
      });
    }
    return own.type == other->second.type && own.required == other->second.required &&
           own.default_value.SerializeAsString() == other->second.default_value.SerializeAsString();
  });
}

/// Newer versions take other types, or have attributes with defaults that keep what is computed: a
/// rule since opset 11, that two operators break.
bool means_the_same(const onnx::NodeProto& node, int from, int to) {
  constexpr int kFirst = 11;
  const auto* a = onnx::OpSchemaRegistry::Schema(node.op_type(), from, node.domain());
  const auto* b = onnx::OpSchemaRegistry::Schema(node.op_type(), to, node.domain());
  if (a == b) return true;
  if (a == nullptr || b == nullptr || a->deprecated() != b->deprecated()) return false;
  const bool is_onnx = node.domain().empty();
  if (is_onnx && (std::min(from, to) < kFirst || node.op_type() == "RoiAlign" ||
                  node.op_type() == "GroupNormalization")) {
    return false;
  }
  return takes(*a, node) && takes(*b, node) && has_attributes_of(*a, *b, node) &&
         has_attributes_of(*b, *a, node);
}

/// The first node, at any depth, that is another in version `to`; null: none.
const onnx::NodeProto* first_other(const Nodes& nodes, const onnx::OperatorSetIdProto& from,
                                   std::int64_t to) {
  return find_node(nodes, [&](const onnx::NodeProto& node) {
    return node.domain() == from.domain() &&
           !means_the_same(node, static_cast<int>(from.version()), static_cast<int>(to));
  });
}

/// What is written for some version of the domain's operator set, the model's graph first.
std::vector<Written> writings_of(onnx::ModelProto& model, const std::string& domain) {
  std::vector<Written> writings;
  const auto add = [&](const std::string& name, const Nodes& nodes, auto& opsets) {
    for (auto& opset : opsets) {
      if (opset.domain() == domain) writings.push_back({name, &nodes, &opset});
    }
  };
  add({}, model.graph().node(), *model.mutable_opset_import());
  for (auto& function : *model.mutable_functions()) {
    add(concat(function.domain(), ".", function.name()), function.node(),
        *function.mutable_opset_import());
  }
  return writings;
}

/// The first one's, then the others' from the newest on.
std::vector<std::int64_t> versions_of(const std::vector<Written>& writings) {
  std::set<std::int64_t, std::greater<>> all;
  for (const auto& body : writings) all.insert(body.opset->version());
  std::vector<std::int64_t> versions{writings.front().opset->version()};
  std::ranges::copy_if(all, std::back_inserter(versions),
                       [&](auto version) { return version != versions.front(); });
  return versions;
}

Error refusal_of(const Written& body, std::int64_t wanted, const onnx::NodeProto& node) {
  const auto& domain = body.opset->domain();
  const auto of_domain = domain.empty() ? std::string() : " of " + domain;
  return Error(make_error(
                   Code::kUnimplemented, "function '", body.name,
                   "' cannot be inlined: it is written for opset ", body.opset->version(),
                   of_domain, ", the model for opset ", wanted, ", and ", node.op_type(),
                   " is not the same in both; export the model again with one opset for all of "
                   "it, or write the function's nodes for opset ",
                   wanted))
      .within(place_of(node));
}

Status align(onnx::ModelProto& model, const std::string& domain) {
  const auto writings = writings_of(model, domain);
  const auto versions = versions_of(writings);
  for (const auto version : versions) {
    const bool serves = std::ranges::all_of(writings, [&](const Written& body) {
      return first_other(*body.nodes, *body.opset, version) == nullptr;
    });
    if (!serves) continue;
    for (const auto& body : writings) body.opset->set_version(version);
    if (!writings.front().name.empty()) *model.add_opset_import() = *writings.front().opset;
    return {};
  }
  for (const auto& body : writings) {
    const auto* node = first_other(*body.nodes, *body.opset, versions.front());
    if (node != nullptr) return refusal_of(body, versions.front(), *node);
  }
  return {};
}

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

/// \param opsets  the versions that the model names, by domain
bool is_operator(const onnx::FunctionProto& function, const std::map<std::string, int>& opsets) {
  if (function.domain() == "com.microsoft") return is_contrib_operator(function.name());
  const auto version = opsets.find(function.domain());
  return version != opsets.end() && onnx::OpSchemaRegistry::Schema(function.name(), version->second,
                                                                   function.domain()) != nullptr;
}

}  // namespace

void drop_shadowed_functions(onnx::ModelProto& model) {
  std::map<std::string, int> opsets;
  for (const auto& opset : model.opset_import()) {
    opsets[opset.domain()] = static_cast<int>(opset.version());
  }
  auto& functions = *model.mutable_functions();
  const auto dropped = std::ranges::remove_if(
      functions, [&](const auto& function) { return is_operator(function, opsets); });
  functions.erase(dropped.begin(), dropped.end());
}

Status align_opsets(onnx::ModelProto& model) {
  std::set<std::string> domains;
  for (const auto& function : model.functions()) {
    for (const auto& opset : function.opset_import()) domains.insert(opset.domain());
  }
  for (const auto& domain : domains) PENSTOCK_CHECK_OK(align(model, domain));
  return {};
}

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
    onnx::inliner::InlineLocalFunctions(model);
    return {};
  });
}

}  // namespace penstock::graph
