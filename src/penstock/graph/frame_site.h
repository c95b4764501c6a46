// A node as the walk over a graph of several frames sees it. Internal to graph.
#pragma once

#include <initializer_list>
#include <optional>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/graph/frame_graph.h"

namespace penstock::graph {

/// What a rule may ask of its node, and do to it. Types are those of one frame.
class FrameSite {
 public:
  FrameSite(FrameGraph& graph, NodeId node) : frames_(graph), graph_(graph.graph()), id_(node) {}

  [[nodiscard]] const Node& node() const { return graph_.node(id_); }
  [[nodiscard]] std::int64_t opset() const;
  [[nodiscard]] int frames() const { return frames_.frames(); }

  [[nodiscard]] std::size_t inputs() const { return node().inputs.size(); }
  [[nodiscard]] bool has_input(std::size_t i) const {
    return i < inputs() && node().inputs[i] != ValueId::kNone;
  }
  [[nodiscard]] bool has_output(std::size_t i) const {
    return i < node().outputs.size() && node().outputs[i] != ValueId::kNone;
  }
  /// kSameForAll where it is left out.
  [[nodiscard]] int axis(std::size_t input) const;
  [[nodiscard]] const std::string& name(std::size_t input) const;
  [[nodiscard]] Sizes sizes(std::size_t input) const { return frames_.sizes(node().inputs[input]); }
  [[nodiscard]] Sizes made(std::size_t output = 0) const {
    return frames_.sizes(node().outputs[output]);
  }
  /// The integers of a constant input; empty where it is none.
  [[nodiscard]] std::optional<Sizes> integers(std::size_t input) const;
  /// Those of a constant of f32.
  [[nodiscard]] std::optional<std::vector<float>> floats(std::size_t input) const;

  void give(std::size_t output, int axis);
  void give_all(int axis);

  /// The input is read with its frames along this axis.
  void place(std::size_t input, int axis);
  /// Another constant of the same element type takes an input's place.
  void put(std::size_t input, const Sizes& integers);
  /// What is the same for all frames, repeated for each along an axis, takes the input's place; its
  /// rank: along a dimension of the frames alone, behind all others.
  /// \error kFailedPrecondition  that, and it is no constant.
  Status repeat(std::size_t input, int axis);
  /// The element of a list of sizes, an input that is computed, becomes that of several frames. One
  /// of -1 stays what is left over, 0 stays a copy. \error kFailedPrecondition
  Status multiply(std::size_t input, std::size_t element);
  /// The element of a list of sizes, an input that is computed, becomes 1 at most.
  /// \error kFailedPrecondition
  Status limit_to_one(std::size_t input, std::size_t element);
  /// The output, which counts the frames in this element, counts one of them: a list of `count`.
  void count_one_frame(std::size_t element, std::size_t count);
  /// The same of a single number.
  void count_one_frame();
  /// The node works on a dimension of the frames alone, before all others of these inputs and of
  /// its output, or behind them; the output's frames then stand along its first dimension.
  /// \error kFailedPrecondition  an input is the same for all frames, and no constant.
  Status spread(std::initializer_list<std::size_t> inputs, bool behind);
  /// The node turns into a Reshape of its first input, as FrameGraph::shape() says.
  void become_reshape(const Sizes& shape, const FrameGraph::Asked& asked);

  /// "node 'n': Softmax cannot take several frames in one call: ..."
  template <typename... Args>
  [[nodiscard]] Error refuse(const Args&... why) const {
    return make_error(Code::kFailedPrecondition, node().op,
                      " cannot take several frames in one call: ", why...)
        .within({Where::kNode, node().name});
  }

 private:
  [[nodiscard]] const Tensor* constant(std::size_t input) const;
  Status compute(std::size_t input, const char* op, Sizes integers);
  void divide(Tensor by);
  [[nodiscard]] Node& changed() { return graph_.nodes[index(id_)]; }

  FrameGraph& frames_;
  Graph& graph_;
  NodeId id_;
};

/// The rule of the node's operator. At least one of its inputs differs from frame to frame, and
/// all its types are fixed.
Status apply_frame_rule(FrameSite& site);

}  // namespace penstock::graph
