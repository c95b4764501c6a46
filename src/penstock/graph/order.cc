// Kahn's topological sort; of the nodes that are ready, the first one in the file goes next.
#include "penstock/graph/order.h"

#include <functional>
#include <numeric>
#include <queue>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

/// Which nodes read what each makes, and what each waits for.
struct Waiting {
  std::vector<std::vector<int>> readers;
  std::vector<int> counts;
};

Waiting waiting_of(const Nodes& nodes) {
  std::unordered_map<std::string, int> makers;
  for (int i = 0; i < nodes.size(); ++i) {
    for (const auto& name : nodes[i].output()) {
      if (!name.empty()) makers.emplace(name, i);
    }
  }
  Waiting waiting{std::vector<std::vector<int>>(static_cast<std::size_t>(nodes.size())),
                  std::vector<int>(static_cast<std::size_t>(nodes.size()))};
  for (int i = 0; i < nodes.size(); ++i) {
    const auto reads = [&](const std::string& name) {
      const auto maker = makers.find(name);
      if (maker == makers.end()) return;
      waiting.readers[static_cast<std::size_t>(maker->second)].push_back(i);
      ++waiting.counts[static_cast<std::size_t>(i)];
    };
    for (const auto& name : nodes[i].input()) reads(name);
    for_each_nested_graph(nodes[i], [&](const onnx::GraphProto& nested) {
      for (const auto& name : captured_names(nested)) reads(name);
    });
  }
  return waiting;
}

}  // namespace

std::vector<int> order_of(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
  auto [readers, counts] = waiting_of(nodes);
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < nodes.size(); ++i) {
    if (counts[static_cast<std::size_t>(i)] == 0) ready.push(i);
  }
  std::vector<int> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (const int reader : readers[static_cast<std::size_t>(order.back())]) {
      if (--counts[static_cast<std::size_t>(reader)] == 0) ready.push(reader);
    }
  }
  return order;
}

namespace {

bool sort(Nodes& nodes) {
  bool moved = false;
  for (auto& node : nodes) {
    for_each_nested_graph(
        node, [&](onnx::GraphProto& nested) { moved = sort(*nested.mutable_node()) || moved; });
  }
  const auto order = order_of(nodes);
  std::vector<int> as_it_is(static_cast<std::size_t>(nodes.size()));
  std::iota(as_it_is.begin(), as_it_is.end(), 0);
  if (order == as_it_is || order.size() != as_it_is.size()) return moved;
  Nodes sorted;
  for (const int i : order) sorted.Add(std::move(nodes[i]));
  nodes.Swap(&sorted);
  return true;
}

}  // namespace

bool sort_nodes(onnx::ModelProto& model) {
  bool moved = sort(*model.mutable_graph()->mutable_node());
  for (auto& function : *model.mutable_functions()) {
    moved = sort(*function.mutable_node()) || moved;
  }
  return moved;
}

}  // namespace penstock::graph
