#include "penstock/graph/words.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace penstock::graph {
namespace {

constexpr std::size_t kMostWords = 64;
/// Attributes that list the texts that a node knows.
constexpr std::string_view kVocabularies[] = {"keys_strings", "pool_strings", "cats_strings"};
constexpr std::string_view kMoves[] = {"Identity",  "Reshape", "Squeeze", "Unsqueeze", "Flatten",
                                       "Transpose", "Slice",   "Gather",  "Expand",    "Tile"};

using Words = std::vector<std::string>;

void add(const Words& more, Words& words) {
  for (const auto& word : more) {
    if (words.size() >= kMostWords) return;
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
}

Words known_to(const Node& node) {
  Words words;
  for (const auto name : kVocabularies) {
    const auto* attribute = node.find(name);
    if (attribute == nullptr) continue;
    if (const auto* list = std::get_if<Words>(&attribute->value)) add(*list, words);
  }
  return words;
}

/// Of what the node reads, the constants that it compares with.
Words compared_with(const Graph& graph, const Node& node) {
  Words words;
  if (node.op != "Equal") return words;
  for (const auto id : node.inputs) {
    if (id == ValueId::kNone || !graph.value(id).constant) continue;
    const auto& constant = *graph.value(id).constant;
    if (constant.kind() != Tensor::Kind::kStrings) continue;
    const auto texts = constant.strings();
    add({texts.begin(), texts.end()}, words);
  }
  return words;
}

}  // namespace

void find_words(Graph& graph) {
  std::vector<Words> of_values(graph.values.size());
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    auto words = known_to(*node);
    add(compared_with(graph, *node), words);
    const bool moves = std::ranges::find(kMoves, node->op) != std::ranges::end(kMoves);
    if ((moves || node->op == "Concat") && !node->outputs.empty() &&
        node->outputs.front() != ValueId::kNone) {
      add(of_values[index(node->outputs.front())], words);
    }
    if (words.empty()) continue;
    for (std::size_t i = 0; i < (moves ? 1 : node->inputs.size()); ++i) {
      if (node->inputs[i] != ValueId::kNone) add(words, of_values[index(node->inputs[i])]);
    }
  }
  for (const auto id : graph.inputs) {
    auto& value = graph.values[index(id)];
    if (value.type.dtype == DType::kString) value.words = of_values[index(id)];
  }
}

}  // namespace penstock::graph
