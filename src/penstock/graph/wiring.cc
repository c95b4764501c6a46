// Notes who makes each value, then looks up what each node reads, scope by scope.
#include "penstock/graph/wiring.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "penstock/base/near_names.h"
#include "penstock/base/option_name.h"
#include "penstock/graph/order.h"
#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

constexpr const char* kExport = "; repair the model, or export it again";

/// "node 'conv1' (Conv)", or "the Conv that makes 'y'", within a sentence.
std::string text_of(const onnx::NodeProto& node) {
  return Error{.code = {}, .reason = {}, .places = place_of(node)}.message();
}

/// Everything that a node reads, in its own bodies too.
std::vector<std::string> read_by(const onnx::NodeProto& node) {
  std::vector<std::string> names(node.input().begin(), node.input().end());
  for_each_nested_graph(node, [&](const onnx::GraphProto& nested) {
    const auto captured = captured_names(nested);
    names.insert(names.end(), captured.begin(), captured.end());
  });
  std::erase(names, "");
  return names;
}

/// The values of one graph: those that are there from the start, and the nodes that make the rest.
class Scope {
 public:
  explicit Scope(const onnx::GraphProto& graph) : graph_(graph) {}

  Status fill() {
    for (const auto& input : graph_.input()) {
      if (given_.insert(input.name()).second) continue;
      return invalid_argument("two inputs are named '", input.name(), "'", kExport);
    }
    std::unordered_set<std::string> constants;
    const auto add = [&](const std::string& name) -> Status {
      given_.insert(name);
      if (constants.insert(name).second) return {};
      return invalid_argument("two initialisers or Constants are named '", name, "'", kExport);
    };
    for (const auto& constant : graph_.initializer()) PENSTOCK_CHECK_OK(add(constant.name()));
    for (const auto& sparse : graph_.sparse_initializer()) {
      PENSTOCK_CHECK_OK(add(sparse.values().name()));
    }
    for (int i = 0; i < graph_.node_size(); ++i) PENSTOCK_CHECK_OK(add_outputs(i));
    return {};
  }

  [[nodiscard]] bool has(const std::string& name) const {
    return given_.contains(name) || makers_.contains(name);
  }
  /// The node that makes it; -1: none.
  [[nodiscard]] int maker(const std::string& name) const {
    const auto found = makers_.find(name);
    return found == makers_.end() ? -1 : found->second;
  }
  void add_names(std::vector<std::string>& names) const {
    names.insert(names.end(), given_.begin(), given_.end());
    for (const auto& [name, maker] : makers_) names.push_back(name);
  }

 private:
  Status add_outputs(int node) {
    for (const auto& name : graph_.node(node).output()) {
      if (name.empty()) continue;
      if (given_.contains(name)) {
        return invalid_argument("makes '", name,
                                "', which is an input or an initialiser of the graph; a value has "
                                "one source",
                                kExport)
            .within(place_of(graph_.node(node)));
      }
      const auto [known, fresh] = makers_.emplace(name, node);
      if (fresh) continue;
      const auto& other = graph_.node(known->second);
      return invalid_argument(
                 "makes '", name, "', which ",
                 other.name().empty() ? concat("an earlier ", other.op_type()) : text_of(other),
                 " makes too; a value has one source", kExport)
          .within(place_of(graph_.node(node)));
    }
    return {};
  }

  const onnx::GraphProto& graph_;
  std::unordered_set<std::string> given_;
  std::unordered_map<std::string, int> makers_;
};

class Wiring {
 public:
  Status check(const onnx::GraphProto& graph) {
    scopes_.emplace_back(graph);
    PENSTOCK_CHECK_OK(scopes_.back().fill());
    for (int i = 0; i < graph.node_size(); ++i) PENSTOCK_CHECK_OK(check_node(graph, i));
    for (const auto& output : graph.output()) {
      if (output.name().empty() || is_known(output.name())) continue;
      return invalid_argument("output '", output.name(),
                              "' of the graph: no node makes it, and it is neither an input nor an "
                              "initialiser",
                              kExport, near(output.name()));
    }
    PENSTOCK_CHECK_OK(check_order(graph));
    scopes_.pop_back();
    return {};
  }

 private:
  Status check_node(const onnx::GraphProto& graph, int node) {
    for (const auto& name : graph.node(node).input()) {
      if (name.empty() || is_known(name)) continue;
      return invalid_argument("reads '", name,
                              "', which no node makes and which is neither an input nor an "
                              "initialiser of the graph",
                              kExport, near(name))
          .within(place_of(graph.node(node)));
    }
    Status status;
    for_each_nested_graph(graph.node(node), [&](const onnx::GraphProto& nested) {
      if (!status) return;
      status = check(nested);
      if (!status) status = std::move(status).error().within(place_of(graph.node(node)));
    });
    return status;
  }

  [[nodiscard]] bool is_known(const std::string& name) const {
    return std::ranges::any_of(scopes_, [&](const Scope& scope) { return scope.has(name); });
  }

  [[nodiscard]] std::string near(const std::string& name) const {
    constexpr std::size_t kTelling = 3;  // Of shorter names all are near.
    if (name.size() < kTelling) return {};
    std::vector<std::string> names;
    for (const auto& scope : scopes_) scope.add_names(names);
    std::ranges::sort(names);
    return did_you_mean(name, names);
  }

  [[nodiscard]] Status check_order(const onnx::GraphProto& graph) const {
    for (int i = 0; i < graph.node_size(); ++i) {
      for (const auto& name : read_by(graph.node(i))) {
        if (scopes_.back().maker(name) >= i) return refuse_circle(graph);
      }
    }
    return {};
  }

  /// Of the nodes that no order suits each waits for another one: whoever follows that long enough
  /// comes to one again.
  [[nodiscard]] Status refuse_circle(const onnx::GraphProto& graph) const {
    std::vector<bool> waits(static_cast<std::size_t>(graph.node_size()), true);
    for (const int node : order_of(graph.node())) waits[static_cast<std::size_t>(node)] = false;
    std::vector<std::pair<int, std::string>> way;  // A node, and what it waits for.
    const auto at = [&](int node) {
      return std::ranges::find(way, node, &std::pair<int, std::string>::first);
    };
    auto node = static_cast<int>(std::ranges::find(waits, true) - waits.begin());
    while (at(node) == way.end()) {
      const auto names = read_by(graph.node(node));
      const auto awaited = std::ranges::find_if(names, [&](const std::string& name) {
        const int maker = scopes_.back().maker(name);
        return maker >= 0 && waits[static_cast<std::size_t>(maker)];
      });
      way.emplace_back(node, *awaited);
      node = scopes_.back().maker(*awaited);
    }
    way.erase(way.begin(), at(node));
    constexpr std::size_t kTold = 6;
    const auto told = std::span(way).first(std::min(way.size(), kTold));
    return invalid_argument(
        way.size() == 1 ? "a node reads what it makes itself: " : "nodes wait for each other: ",
        join(told, ", ",
             [&](const auto& step) {
               return concat(text_of(graph.node(step.first)), " reads '", step.second, "' of ",
                             text_of(graph.node(scopes_.back().maker(step.second))));
             }),
        way.size() > kTold ? concat(" and ", way.size() - kTold, " more") : std::string(),
        "; a network has no circles: what a frame leaves for the next one is an output and an "
        "input (",
        OptionName::kStates, ")", kExport);
  }

  std::vector<Scope> scopes_;
};

}  // namespace

Status check_wiring(const onnx::GraphProto& graph) {
  return Wiring().check(graph);
}

}  // namespace penstock::graph
