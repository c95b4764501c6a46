// Walks over the part's nodes in order, applies each one's rule and checks the resulting types.
#include "penstock/graph/batched.h"

#include <algorithm>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/frame_site.h"
#include "penstock/graph/inference.h"

namespace penstock::graph {
namespace {

/// The part's nodes and values alone, with its boundary as the graph's.
Graph extract(const Subgraph& part) {
  Draft draft;
  draft.graph = part.graph();
  auto& graph = draft.graph;
  graph.inputs.clear();
  graph.parameters.clear();
  for (auto& value : graph.values) value.is_input = false;
  for (const auto id : part.inputs()) {
    auto& value = graph.values[index(id)];
    (value.is_parameter ? graph.parameters : graph.inputs).push_back(id);
    value.is_input = !value.is_parameter;
  }
  graph.outputs = part.outputs();
  std::vector<bool> keep(graph.nodes.size(), false);
  for (const auto id : part.nodes()) keep[index(id)] = true;
  compact(draft, keep);
  return std::move(draft.graph);
}

bool is_ranked(const Type& type) {
  return type.kind == Type::Kind::kTensor && type.ranked;
}

/// Whether a value of what was found may be of what was said, by all that both know.
bool agree(const Type& found, const Type& said) {
  if (said.fixed()) return to_string(found) == to_string(said);
  if (!is_ranked(found)) return true;
  return found.dtype == said.dtype &&
         std::ranges::equal(found.dims, said.dims, [](const Dim& one, const Dim& other) {
           return !one.fixed() || !other.fixed() || one.size == other.size;
         });
}

class FrameWalk {
 public:
  FrameWalk(Graph graph, int frames) : frames_(std::move(graph), frames) {}

  Result<Graph> run() {
    for (const auto id : std::vector(graph_.inputs)) PENSTOCK_CHECK_OK(begin(id));
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      PENSTOCK_CHECK_OK(take(static_cast<NodeId>(i)));
    }
    for (const auto id : std::vector(graph_.outputs)) PENSTOCK_CHECK_OK(end(id));
    const Graph wide = std::move(frames_).widen();
    PENSTOCK_CHECK_OK(check_types(wide));
    return wide;
  }

 private:
  /// Its frames follow one another without a gap of bits.
  [[nodiscard]] static std::string why_no_frames(const Type& type) {
    if (!is_ranked(type)) return "nothing tells how many dimensions it has";
    if (type.dims.empty()) return "it has no dimension that could hold several frames";
    const auto bits = bits_of(type.dtype);
    if (bits == 0 || type.max_bytes() == 0) return "it holds nothing, or no numbers";
    if (bits < 8) return "its numbers are smaller than a byte";
    return {};
  }

  Status begin(ValueId id) {
    const auto& value = graph_.value(id);
    frames_.set_axis(id, 0);
    const auto why = why_no_frames(value.type);
    if (why.empty()) return {};
    const auto reader = value.consumers.empty()
                            ? "no node reads it"
                            : "node '" + graph_.node(value.consumers.front()).name + "' reads it";
    return make_error(Code::kFailedPrecondition, "cannot hold several frames: it is ", value.type,
                      ": ", why, "; ", reader)
        .within({Where::kInput, value.name});
  }

  Status take(NodeId id) {
    FrameSite site(frames_, id);
    PENSTOCK_CHECK_OK(check_random(site));
    const auto& node = graph_.node(id);
    const auto differs = [&](ValueId read) {
      return read != ValueId::kNone && frames_.axis(read) != kSameForAll;
    };
    if (std::ranges::any_of(node.captures, differs)) {
      return site.refuse("its inner graphs read values that differ from frame to frame");
    }
    if (std::ranges::none_of(node.inputs, differs)) return {};
    for (const auto* list : {&node.inputs, &node.outputs}) {
      for (const auto value : *list) PENSTOCK_CHECK_OK(check_known(site, value));
    }
    return apply_frame_rule(site);
  }

  /// One call draws once, where several draw anew for each frame.
  static Status check_random(const FrameSite& site) {
    const auto& op = site.node().op;
    if (!op.starts_with("Random") && op != "Bernoulli" && op != "Multinomial") return {};
    return site.refuse("its numbers are random");
  }

  Status check_known(const FrameSite& site, ValueId id) const {
    if (id == ValueId::kNone) return {};
    const auto& value = graph_.value(id);
    if (!is_ranked(value.type)) {
      return site.refuse("expected to know how many dimensions '", value.name, "' has, found ",
                         value.type, "; bind the model's inputs (", OptionName::kShapes, ")");
    }
    const bool empty =
        std::ranges::any_of(value.type.dims, [](const Dim& dim) { return dim.size == 0; });
    if (empty && !value.constant) {
      return site.refuse("'", value.name, "' is empty, ", value.type);
    }
    return {};
  }

  Status end(ValueId id) {
    const Value value = graph_.value(id);  // A copy: moving it adds values.
    const int axis = frames_.axis(id);
    const auto why =
        axis == kSameForAll ? "it is the same for all frames" : why_no_frames(value.type);
    if (why.empty()) {
      if (axis > 0) move_output(id);
      return {};
    }
    Error error = make_error(Code::kFailedPrecondition, "cannot hold several frames: it is ",
                             value.type, ": ", why)
                      .within({Where::kOutput, value.name});
    if (!value.producer) return error;
    return std::move(error).within({Where::kNode, graph_.node(*value.producer).name});
  }

  /// Its frames come to stand along the first dimension, under its name.
  void move_output(ValueId id) {
    const auto end = graph_.nodes.size();
    const auto moved = frames_.moved(id, 0, end);
    std::swap(graph_.values[index(moved)].name, graph_.values[index(id)].name);
    std::ranges::replace(graph_.outputs, id, moved);
  }

  /// What the rules say against what ONNX's shape inference finds by itself.
  static Status check_types(const Graph& wide) {
    Graph inferred = wide;
    infer_types(inferred, Source::kInference);
    for (std::size_t i = 0; i < wide.values.size(); ++i) {
      const auto& said = wide.values[i];
      if (!said.producer || !is_ranked(said.type)) continue;
      if (agree(inferred.values[i].type, said.type)) continue;
      const auto& node = wide.node(*said.producer);
      return make_error(Code::kFailedPrecondition, node.op,
                        " cannot take several frames in one call: '", said.name, "' is ",
                        inferred.values[i].type, ", expected ", said.type)
          .within({Where::kNode, node.name});
    }
    return {};
  }

  FrameGraph frames_;
  Graph& graph_ = frames_.graph();
};

}  // namespace

Result<Graph> batched(const Subgraph& part, int frames) {
  return FrameWalk(extract(part), frames).run();
}

}  // namespace penstock::graph
