// A graph on its way from one frame to several. Internal to graph.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "penstock/graph/graph.h"

namespace penstock::graph {

inline constexpr int kSameForAll = -1;  ///< The value does not differ from frame to frame.

using Sizes = std::vector<std::int64_t>;

/// Types stay those of one frame until widen(). The values of several frames stand one after the
/// other along an axis, whose size is multiplied by their number then.
class FrameGraph {
 public:
  FrameGraph(Graph graph, int frames);

  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] Graph& graph() { return graph_; }
  [[nodiscard]] int frames() const { return frames_; }
  [[nodiscard]] int axis(ValueId id) const { return axes_[index(id)]; }
  void set_axis(ValueId id, int axis) { axes_[index(id)] = axis; }
  [[nodiscard]] Sizes sizes(ValueId id) const;

  /// A value of a new name that begins with `stem`.
  ValueId add_value(const std::string& stem, Type type, int axis);
  ValueId add_constant(const std::string& stem, Tensor tensor);

  /// The same numbers with a dimension of the frames alone before dimension `to`, where it is the
  /// axis. New nodes stand before the one at `place`, in the order of the calls.
  ValueId spread(ValueId id, int to, std::size_t place);
  /// A dimension of the frames alone moved to another place.
  ValueId turned(ValueId id, int to, std::size_t place);
  /// Undoes spread(): the frames stand one after the other along the dimension behind theirs.
  ValueId gather(ValueId id, std::size_t place);
  /// The same numbers with the frames along another axis.
  ValueId moved(ValueId id, int to, std::size_t place);
  /// The same as gather() into a value that is there.
  void gather_into(ValueId id, ValueId to, std::size_t place);

  /// The whole with the types of several frames and the new nodes.
  Graph widen() &&;

 private:
  ValueId derived(ValueId id, const Sizes& sizes, int axis);
  void add_reshape(ValueId from, ValueId to, std::size_t place);

  Graph graph_;
  int frames_;
  std::vector<int> axes_;                               // Of each value, or kSameForAll.
  std::vector<std::pair<std::size_t, Node>> inserted_;  // And before which node.
};

}  // namespace penstock::graph
