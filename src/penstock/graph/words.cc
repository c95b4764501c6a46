// Walks from the last node to the first and collects vocabularies and texts compared with.
#include "penstock/graph/words.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/graph/bodies.h"

namespace penstock::graph {
namespace {

constexpr std::size_t kMostWords = 64;
/// Attributes that list the texts that a node knows.
constexpr std::string_view kVocabularies[] = {"keys_strings", "pool_strings", "cats_strings",
                                              "classes_strings"};
/// Stands for all texts that none of the readers knows.
constexpr const char* kUnknownWord = "";
/// They give the texts that they read, perhaps in another case.
constexpr std::string_view kMoves[] = {"Identity", "Reshape",   "Squeeze",         "Unsqueeze",
                                       "Flatten",  "Transpose", "Slice",           "Gather",
                                       "Expand",   "Tile",      "StringNormalizer"};

using Words = std::vector<std::string>;
/// Of each value, by ValueId.
using WordsOfValues = std::vector<Words>;

void add(const Words& more, Words& words) {
  for (const auto& word : more) {
    if (words.size() >= kMostWords) return;
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  }
}

/// A node that knows some texts does not refuse others, but for this one.
bool refuses_others(const Node& node) {
  return node.op == "OneHotEncoder" && node.int_or("zeros", 1) == 0;
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

WordsOfValues words_within(const Graph& graph, WordsOfValues words);

/// Of what the node reads outside, what its nested graphs know.
void add_of_bodies(const Graph& graph, const Node& node, WordsOfValues& words) {
  for (const auto& body : bodies_of(graph, node)) {
    WordsOfValues inside(body.graph.values.size());
    for (const auto& [outer, inner] : body.made) add(words[index(outer)], inside[index(inner)]);
    inside = words_within(body.graph, std::move(inside));
    for (const auto& [outer, inner] : body.read) add(inside[index(inner)], words[index(outer)]);
  }
}

/// Which texts the readers of each value know, where those of some are given.
WordsOfValues words_within(const Graph& graph, WordsOfValues words) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    add_of_bodies(graph, *node, words);
    auto known = known_to(*node);
    add(compared_with(graph, *node), known);
    if (!known.empty() && !refuses_others(*node)) known.insert(known.begin(), kUnknownWord);
    const bool moves = std::ranges::find(kMoves, node->op) != std::ranges::end(kMoves);
    if ((moves || node->op == "Concat") && !node->outputs.empty() &&
        node->outputs.front() != ValueId::kNone) {
      add(words[index(node->outputs.front())], known);
    }
    if (known.empty()) continue;
    for (std::size_t i = 0; i < (moves ? 1 : node->inputs.size()); ++i) {
      if (node->inputs[i] != ValueId::kNone) add(known, words[index(node->inputs[i])]);
    }
  }
  return words;
}

}  // namespace

void find_words(Graph& graph) {
  const bool any = std::ranges::any_of(
      graph.inputs, [&](ValueId id) { return graph.value(id).type.dtype == DType::kString; });
  if (!any) return;
  const auto words = words_within(graph, WordsOfValues(graph.values.size()));
  for (const auto id : graph.inputs) {
    auto& value = graph.values[index(id)];
    if (value.type.dtype == DType::kString) value.words = words[index(id)];
  }
}

}  // namespace penstock::graph
