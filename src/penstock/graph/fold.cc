// The engine evaluates constant nodes in batches; results that would grow too large are not kept.
#include "penstock/graph/fold.h"

#include <algorithm>
#include <array>
#include <functional>
#include <unordered_set>

#include "penstock/graph/model_proto.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/randomness.h"

namespace penstock::graph {
namespace {

constexpr const char* kFolded = "folded into constant";
constexpr std::size_t kFreeGrowthBytes = 64 * 1024;
constexpr std::size_t kGrowthFactor = 2;
// Constants of one evaluation: they stand in memory twice while it runs.
constexpr std::size_t kBatchBytes = std::size_t{64} << 20;

using OpNames = std::unordered_set<std::string_view>;

bool is_quantisation(std::string_view op) {
  return op.ends_with("QuantizeLinear") || op.ends_with("DequantizeLinear");
}

/// Operators whose output may be larger than all they read, by the value of an input.
bool is_grower(std::string_view op) {
  static const OpNames kOps = {"ConstantOfShape",
                               "Expand",
                               "Range",
                               "Tile",
                               "OneHot",
                               "Pad",
                               "Resize",
                               "Upsample",
                               "EyeLike",
                               "If",
                               "Loop",
                               "Scan",
                               "HannWindow",
                               "HammingWindow",
                               "BlackmanWindow",
                               "MelWeightMatrix",
                               "DFT",
                               "STFT",
                               "AffineGrid",
                               "CenterCropPad",
                               "MaxUnpool"};
  return kOps.contains(op);
}

bool is_free_constant(const Value& value) {
  return value.constant && !value.is_parameter && !value.is_input;
}

/// Values made in `batch` (ascending) that something outside it reads.
std::vector<ValueId> frontier(const Graph& graph, const std::vector<NodeId>& batch) {
  std::vector<ValueId> found;
  for (const auto node : batch) {
    for (const auto id : graph.node(node).outputs) {
      if (id == ValueId::kNone) continue;
      const auto& value = graph.value(id);
      const bool read_outside = std::ranges::any_of(value.consumers, [&](NodeId consumer) {
        return !std::ranges::binary_search(batch, consumer);
      });
      if (value.is_output || read_outside) found.push_back(id);
    }
  }
  return found;
}

/// What took the place of the nodes of `batch`: the constants `made`, each of all before it.
void note_folded(Draft& draft, const std::vector<NodeId>& batch, const std::vector<ValueId>& made) {
  const auto& graph = draft.graph;
  std::vector<ValueId> became(graph.values.size(), ValueId::kNone);
  for (const auto id : made) became[index(id)] = id;
  for (auto node_id = batch.rbegin(); node_id != batch.rend(); ++node_id) {
    const auto& node = graph.node(*node_id);
    // A node whose outputs nothing reads is as good as part of the last.
    ValueId by = made.empty() ? ValueId::kNone : made.back();
    for (const auto id : node.outputs) {
      if (id == ValueId::kNone || became[index(id)] == ValueId::kNone) continue;
      by = became[index(id)];
      break;
    }
    const std::string name = by == ValueId::kNone ? "" : graph.value(by).name;
    draft.remove(node.name, kFolded, name);
    for (const auto* list : {&node.outputs, &node.inputs, &node.captures}) {
      for (const auto id : *list) {
        if (id == ValueId::kNone || became[index(id)] == id) continue;
        if (became[index(id)] == ValueId::kNone) became[index(id)] = by;
        // Of constants read: said only if nothing else keeps them.
        draft.remove(graph.value(id).name, kFolded, name);
      }
    }
  }
}

class Folder {
 public:
  Folder(Draft& draft, const Engine& engine)
      : draft_(draft),
        graph_(draft.graph),
        engine_(engine),
        folding_(graph_.values.size(), false) {}

  bool run() {
    std::vector<NodeId> batch;
    std::size_t bytes = 0;
    for (const auto id : foldable_nodes()) {
      const auto own = constant_bytes(graph_.node(id));
      if (!batch.empty() && bytes + own > kBatchBytes) {
        evaluate(batch);
        batch.clear();
        bytes = 0;
      }
      batch.push_back(id);
      bytes += own;
    }
    if (!batch.empty()) evaluate(batch);
    if (folded_.empty()) return false;
    std::vector<bool> keep(graph_.nodes.size(), true);
    for (const auto id : folded_) keep[index(id)] = false;
    compact(draft_, keep);
    return true;
  }

 private:
  std::vector<NodeId> foldable_nodes() {
    std::vector<NodeId> found;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (!foldable(graph_.nodes[i])) continue;
      found.push_back(static_cast<NodeId>(i));
      for (const auto id : graph_.nodes[i].outputs) {
        if (id != ValueId::kNone) folding_[index(id)] = true;
      }
    }
    return found;
  }

  bool foldable(const Node& node) const {
    static const std::unordered_set<std::string> kDomains = {"", "ai.onnx.ml", "com.microsoft"};
    if (!kDomains.contains(node.domain) || is_quantisation(node.op)) return false;
    const auto constant = [&](ValueId id) {
      return id == ValueId::kNone || folding_[index(id)] || is_free_constant(graph_.value(id));
    };
    if (!std::ranges::all_of(node.inputs, constant) ||
        !std::ranges::all_of(node.captures, constant)) {
      return false;
    }
    if (draft_.unfoldable.contains(key_of(node)) || !small_enough(node)) return false;
    return !is_random(graph_, node);
  }

  [[nodiscard]] std::string key_of(const Node& node) const {
    for (const auto id : node.outputs) {
      if (id != ValueId::kNone) return graph_.value(id).name;
    }
    return {};
  }

  /// Bytes of the constants that a node reads, those to be computed in this round included.
  [[nodiscard]] std::size_t constant_bytes(const Node& node) const {
    std::size_t bytes = 0;
    for (const auto* list : {&node.inputs, &node.captures}) {
      for (const auto id : *list) {
        if (id == ValueId::kNone) continue;
        const auto& value = graph_.value(id);
        bytes += value.constant ? value.constant->bytes() : value.type.max_bytes().value_or(0);
      }
    }
    return bytes;
  }

  [[nodiscard]] std::size_t allowance(const Node& node) const {
    // The second bound stops a chain in which each node may double what the one before made.
    return kGrowthFactor * std::min(constant_bytes(node), draft_.file_constant_bytes) +
           kFreeGrowthBytes;
  }

  [[nodiscard]] bool reads_only_constants(const Node& node) const {
    return std::ranges::all_of(
        node.inputs, [&](ValueId id) { return id == ValueId::kNone || graph_.value(id).constant; });
  }

  [[nodiscard]] bool small_enough(const Node& node) const {
    const auto limit = allowance(node);
    return std::ranges::all_of(node.outputs, [&](ValueId id) {
      if (id == ValueId::kNone) return true;
      const auto& type = graph_.value(id).type;
      if (type.kind == Type::Kind::kOther) return false;
      const auto bytes = type.fixed() ? type.max_bytes() : std::nullopt;
      if (bytes) return *bytes <= limit;
      // Of unknown size: its inputs must have a known one at least, to bound what it can make.
      return !is_grower(node.op) && reads_only_constants(node);
    });
  }

  void evaluate(const std::vector<NodeId>& batch) {
    if (evaluate_together(batch) || batch.size() == 1) {
      if (batch.size() == 1 && !folded_.contains(batch[0])) {
        draft_.unfoldable.insert(key_of(graph_.node(batch[0])));
      }
      return;
    }
    for (const auto id : batch) {
      if (!evaluate_together({id})) draft_.unfoldable.insert(key_of(graph_.node(id)));
    }
  }

  /// False, and nothing changed, if the engine cannot or a result is not what it should be.
  bool evaluate_together(const std::vector<NodeId>& batch) {
    Part part{batch, {}, frontier(graph_, batch), {}};
    if (part.outputs.empty()) return false;
    std::unordered_set<std::size_t> seen;
    for (const auto node : batch) {
      for (const auto* list : {&graph_.node(node).inputs, &graph_.node(node).captures}) {
        for (const auto id : *list) {
          if (id == ValueId::kNone || !seen.insert(index(id)).second) continue;
          const auto& value = graph_.value(id);
          if (value.constant) part.constants.push_back(id);
          // One of a batch that could not be evaluated: what hangs on it stays as well.
          if (!value.constant && !std::ranges::binary_search(batch, *value.producer)) return false;
        }
      }
    }
    const auto model = bytes_of(graph_, part);
    if (!model) return false;
    auto results = engine_.evaluate(*model);
    if (!results || (*results).size() != part.outputs.size()) return false;
    if (!acceptable(batch, *results)) return false;
    for (std::size_t i = 0; i < part.outputs.size(); ++i) {
      auto& value = graph_.values[index(part.outputs[i])];
      value.type = (*results)[i].type();
      value.constant = std::move((*results)[i]);
    }
    note_folded(draft_, batch, part.outputs);
    folded_.insert(batch.begin(), batch.end());
    return true;
  }

  [[nodiscard]] bool acceptable(const std::vector<NodeId>& batch,
                                const std::vector<Tensor>& results) const {
    std::size_t limit = kFreeGrowthBytes;
    for (const auto id : batch) limit += allowance(graph_.node(id));
    std::size_t bytes = 0;
    for (const auto& tensor : results) {
      if (tensor.kind() != Tensor::Kind::kDense && tensor.kind() != Tensor::Kind::kStrings) {
        return false;
      }
      bytes += tensor.bytes();
    }
    return bytes <= limit;
  }

  Draft& draft_;
  Graph& graph_;
  const Engine& engine_;
  std::vector<bool> folding_;
  std::set<NodeId> folded_;
};

}  // namespace

bool fold_known_integers(Draft& draft, const KnownIntegers& known) {
  auto& graph = draft.graph;
  bool changed = false;
  for (const auto& [id, integers] : known) {
    auto& value = graph.values[index(id)];
    const auto& type = value.type;
    if (value.constant || !value.producer || !type.fixed() || type.dtype != DType::kI64 ||
        type.dims.size() > 1 || graph.node(*value.producer).outputs.size() != 1) {
      continue;
    }
    const auto count = type.dims.empty() ? 1 : static_cast<std::size_t>(type.dims[0].size);
    if (count != integers.size()) continue;
    std::vector<std::int64_t> dims;
    for (const auto& dim : type.dims) dims.push_back(dim.size);
    Tensor tensor = Tensor::allocate(DType::kI64, std::move(dims));
    std::ranges::copy(integers, tensor.as<std::int64_t>().begin());
    value.constant = std::move(tensor);
    changed = true;
  }
  if (!changed) return false;
  std::vector<bool> keep(graph.nodes.size(), true);
  std::vector<NodeId> done;
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto& outputs = graph.nodes[i].outputs;
    keep[i] = outputs.size() != 1 || outputs[0] == ValueId::kNone ||
              !is_free_constant(graph.value(outputs[0]));
    if (!keep[i]) done.push_back(static_cast<NodeId>(i));
  }
  note_folded(draft, done, frontier(graph, done));
  compact(draft, keep);
  return true;
}

bool fold_constants(Draft& draft, const Engine& engine) {
  return engine.evaluate && Folder(draft, engine).run();
}

}  // namespace penstock::graph
