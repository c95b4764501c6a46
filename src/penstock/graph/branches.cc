// Puts the nodes of the branch that a constant condition chooses in the place of the If.
#include "penstock/graph/branches.h"

#include <optional>
#include <utility>

#include "penstock/graph/inliner.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

/// The branch that an If always takes; empty for all other nodes.
std::optional<onnx::GraphProto> known_branch(const Graph& graph, const Node& node) {
  if (node.op != "If" || !node.domain.empty() || node.inputs.size() != 1) return std::nullopt;
  const auto* condition = known_scalar(graph, node, 0, DType::kBool);
  if (condition == nullptr) return std::nullopt;
  const bool value = *static_cast<const unsigned char*>(condition->data()) != 0;
  auto branch = nested_graph(graph, node, value ? "then_branch" : "else_branch");
  const bool fits = branch && branch->input_size() == 0 &&
                    static_cast<std::size_t>(branch->output_size()) == node.outputs.size();
  return fits ? std::move(branch) : std::nullopt;
}

class BranchTaker {
 public:
  explicit BranchTaker(Draft& draft) : draft_(draft), graph_(draft.graph), inliner_(draft) {}

  Result<bool> run() {
    bool any = false;
    for (std::size_t i = 0; i < inliner_.nodes().size(); ++i) {
      const auto& node = inliner_.nodes()[i];
      inliner_.begin(i);
      const auto branch = known_branch(graph_, node);
      if (branch) PENSTOCK_CHECK_OK(take(node, *branch));
      if (!branch) inliner_.add(node);
      any = any || branch;
    }
    inliner_.finish();
    return any;
  }

 private:
  Status take(const Node& node, const onnx::GraphProto& branch) {
    std::string first;
    for (const auto id : node.outputs) {
      if (first.empty() && id != ValueId::kNone) first = graph_.value(id).name;
    }
    draft_.remove(node.name, "removed, an If that always takes one branch, which makes", first);
    inliner_.set_prefix((node.name.empty() ? first : node.name) + "/");
    PENSTOCK_TRY(auto constants,
                 inliner_.copy_constants(branch, inliner_.claims(branch, node.outputs)));
    constants.merge(captures_of(graph_, node));
    inliner_.copy(branch, std::move(constants), node.outputs);
    return {};
  }

  Draft& draft_;
  Graph& graph_;
  Inliner inliner_;
};

}  // namespace

Result<bool> take_known_branches(Draft& draft) {
  return BranchTaker(draft).run();
}

}  // namespace penstock::graph
