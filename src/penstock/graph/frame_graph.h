// A graph on its way from one frame to several. Internal to graph.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "penstock/graph/graph.h"

namespace penstock::graph {

inline constexpr int kSameForAll = -1;  ///< The value does not differ from frame to frame.

/// An open size is a negative number below -1, which two sizes share where one symbol names both.
/// One that only one number fits is that number.
using Sizes = std::vector<std::int64_t>;

inline bool is_open(std::int64_t size) {
  return size < 0;
}

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

  /// The value with a dimension of the frames alone before dimension `to`, where it is the
  /// axis. New nodes stand before the one at `place`, in the order of the calls.
  ValueId spread(ValueId id, int to, std::size_t place);
  /// A dimension of the frames alone moved to another place.
  ValueId turned(ValueId id, int to, std::size_t place);
  /// Undoes spread(): the frames stand one after the other along the dimension behind theirs.
  ValueId gather(ValueId id, std::size_t place);
  /// The value with the frames along another axis.
  ValueId moved(ValueId id, int to, std::size_t place);
  /// gather() into a value that is there.
  void gather_into(ValueId id, ValueId to, std::size_t place);

  /// A new node stands before the one at `place`. \returns its output, the same for all frames,
  /// of the type of its first input.
  ValueId computed(const std::string& op, std::vector<ValueId> inputs, std::size_t place);
  /// Gives a Reshape its shape, of a value that is there before the node at `place`. A size that is
  /// open is that of the value's own dimension `same[k]`, asked for when a call runs; that at
  /// `left` is so many times, or the so-manieth part of it, where more than one is open, else left
  /// over.
  struct Asked {
    std::vector<int> same;
    int left = 0;
    int times = 1, parts = 1;
  };
  void shape(Node& reshape, const Sizes& sizes, const Asked& asked, std::size_t place);
  /// The same numbers once for each frame, along an axis.
  ValueId repeated(ValueId id, int axis, std::size_t place);
  void insert(Node node, std::size_t place) { inserted_.emplace_back(place, std::move(node)); }

  /// The whole with the types of several frames and the new nodes.
  Graph widen() &&;

 private:
  ValueId derived(ValueId id, std::vector<Dim> dims, int axis);
  void insert(const std::string& op, std::vector<ValueId> inputs, ValueId output, std::size_t place,
              std::vector<Attribute> attributes = {});
  ValueId add_integers(const std::string& stem, const std::string& op, std::vector<ValueId> inputs,
                       std::size_t count, std::size_t place,
                       std::vector<Attribute> attributes = {});
  ValueId sizes_at_run(ValueId of, const Sizes& known, const Sizes& order, std::size_t place);
  void add_reshape(ValueId from, ValueId to, const Asked& asked, std::size_t place);
  [[nodiscard]] std::string symbol_of(ValueId id, std::size_t axis) const;
  void settle_sizes();

  Graph graph_;
  int frames_;
  std::vector<int> axes_;                                // Of each value, or kSameForAll.
  std::vector<std::pair<std::size_t, Node>> inserted_;   // And before which node.
  mutable std::map<std::string, std::int64_t> symbols_;  // Numbered as they are met, or settled.
};

}  // namespace penstock::graph
