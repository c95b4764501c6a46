// Reads the nested graphs out of a node's attributes, and renames what they capture.
#include "penstock/graph/captures.h"

#include "penstock/graph/inliner.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {

Result<bool> hides(const Node& node, const std::string& name) {
  onnx::NodeProto holder;
  for (const auto& attribute : node.attributes) {
    if (!std::holds_alternative<Attribute::Opaque>(attribute.value)) continue;
    PENSTOCK_CHECK_OK(fill(attribute, *holder.add_attribute()));
  }
  std::unordered_set<std::string> names;
  add_nested_names(holder, names);
  return names.contains(name);
}

Status rename_captured(Node& node, const std::string& from, const std::string& to) {
  for (auto& attribute : node.attributes) {
    if (!std::holds_alternative<Attribute::Opaque>(attribute.value)) continue;
    onnx::AttributeProto proto;
    PENSTOCK_CHECK_OK(fill(attribute, proto));
    if (!proto.has_g()) continue;
    rename_captures(*proto.mutable_g(), {{from, to}});
    attribute = attribute_of(proto);
  }
  return {};
}

}  // namespace penstock::graph
