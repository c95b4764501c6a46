// Renames a captured value in the graphs nested in a node, unless the new name is taken there.
#include "penstock/graph/captures.h"

#include <algorithm>

#include "penstock/graph/inliner.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {

Status rename_captured(Node& node, const std::string& from, const std::string& to) {
  for (auto& attribute : node.attributes) {
    if (!std::holds_alternative<Attribute::Opaque>(attribute.value)) continue;
    onnx::AttributeProto proto;
    PENSTOCK_CHECK_OK(fill(attribute, proto));
    if (!proto.has_g()) continue;
    std::unordered_set<std::string> taken;
    onnx::NodeProto holder;
    *holder.add_attribute() = proto;
    add_nested_names(holder, taken);
    if (taken.contains(to)) {
      return invalid_argument("a graph in it has a value '", to, "' of its own")
          .within({Where::kNode, node.name});
    }
    rename_captures(*proto.mutable_g(), {{from, to}});
    attribute = attribute_of(proto);
  }
  return {};
}

}  // namespace penstock::graph
