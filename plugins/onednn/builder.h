// Builder: makes a Program of a graph, node by node. operators.h says how each is lowered.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/graph/graph.h"
#include "program.h"

namespace penstock::onednn {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::ValueId;

using Descriptor = std::shared_ptr<dnnl_primitive_desc>;  ///< Of a primitive, before it is made.
using Attributes = std::shared_ptr<dnnl_primitive_attr>;

class Builder {
 public:
  Builder(std::shared_ptr<const Engine> engine, const Graph& graph, bool optimize,
          dnnl_fpmath_mode_t precision);

  /// \error kUnimplemented  names the node, its operator and why.
  Result<std::shared_ptr<const Program>> build(int threads);

  [[nodiscard]] const Engine& engine() const { return *program_->engine; }
  [[nodiscard]] const Api& api() const { return engine().api; }
  [[nodiscard]] const Graph& graph() const { return *graph_; }
  [[nodiscard]] bool optimize() const { return optimize_; }
  [[nodiscard]] std::int64_t opset() const { return opset_; }

  // What is known of a value.
  [[nodiscard]] Dims dims(ValueId id) const { return dims_of(graph_->value(id).type); }
  [[nodiscard]] DType dtype(ValueId id) const { return graph_->value(id).type.dtype; }
  [[nodiscard]] const Tensor* constant(ValueId id) const { return lower::constant(*graph_, id); }
  [[nodiscard]] std::span<const float> floats(ValueId id) const;  ///< \pre a constant of f32.
  [[nodiscard]] auto integers(ValueId id) const { return lower::integers(*graph_, id); }
  [[nodiscard]] auto scalar(ValueId id) const { return lower::scalar(*graph_, id); }
  [[nodiscard]] auto only_reader(ValueId id) const { return lower::only_reader(*graph_, id); }

  // Where values lie.
  /// False while the node that makes it is not lowered.
  [[nodiscard]] bool available(ValueId id) const;
  /// Where it lies; a constant is plain. \pre available(id)
  Result<Place> place(ValueId id);
  /// The same value in `layout`, by a reorder where it does not lie so; that is remembered.
  Result<Place> place_as(ValueId id, const Layout& layout);
  Result<Place> plain_place(ValueId id);
  /// In whatever order, without gaps.
  Result<Place> dense_place(ValueId id);
  Result<Place> strided_place(ValueId id);  ///< Not blocked.
  /// As `layout`, of a place that stands for no value.
  Result<Place> reordered(const Place& from, const Layout& layout);
  /// Seen as `dims`, by way of a copy where the layout does not allow it.
  Result<Place> reshaped(const Place& from, const Dims& dims);
  /// So lie the values, too, that other nodes compute in the same way of the same: these are done.
  void define(ValueId id, Place place);

  Place new_place(Layout layout);
  Result<Place> new_constant(std::span<const float> values, const Dims& dims);
  /// Whether nothing reads the buffer once the nodes done, and `nodes`, are.
  [[nodiscard]] bool is_free_after(const Place& place, std::span<const NodeId> nodes) const;

  // Steps.
  void mark_done(NodeId id) { done_[graph::index(id)] = true; }
  [[nodiscard]] bool is_done(NodeId id) const { return done_[graph::index(id)]; }
  Result<Attributes> attributes(dnnl_post_ops_t post_ops) const;
  Result<Layout> layout_of(const Descriptor& descriptor, dnnl_query_t what, int index = 0) const;
  [[nodiscard]] std::string implementation_of(const Descriptor& descriptor) const;
  Status append(const Descriptor& descriptor, std::vector<Argument> arguments);
  /// Places that it reads, then those that it writes.
  void append_kernel(Kernel kernel, std::vector<Place> places);
  void append_fill(const Place& place, float value);
  /// By a reorder where it is f32. \pre both are of one type and shape.
  Status copy(const Place& from, const Place& to);

  /// Calls a function of oneDNN that makes a descriptor.
  template <typename Function>
  Result<Descriptor> describe(Function function) const {
    dnnl_primitive_desc_t raw = nullptr;
    PENSTOCK_CHECK_OK(engine().check(function(&raw), "operator"));
    return Descriptor(raw, api().primitive_desc_destroy);
  }

  /// Whether this CPU's convolutions want no blocked layout, asked of one in the middle of a
  /// network.
  Result<bool> takes_channels_last();

  Result<Layout> plain(const Dims& dims, DType dtype = DType::kF32) const {
    return Layout::plain(engine(), dims, dtype);
  }
  Result<Layout> any(const Dims& dims) const { return Layout::any(engine(), dims); }

 private:
  struct State {
    std::optional<Place> place;
    std::vector<Place> others;  // The value in other layouts.
  };

  Status check_types() const;
  Status take_inputs();
  Status lower(NodeId id);
  Status deliver_outputs();
  void drop_unused_constants();
  [[nodiscard]] std::optional<NodeId> twin_before(NodeId id) const;
  Result<Place> add_constant(Tensor tensor, const Dims& dims);
  Status deliver(std::size_t i);
  Result<Place> reorder_constant(const Place& from, const Layout& layout);
  Result<Step> step_of(const Descriptor& descriptor, std::vector<Argument> arguments) const;
  Result<Step> step_of_copy(const Place& from, const Place& to) const;
  [[nodiscard]] Status check_floats(const Node& node) const;

  std::shared_ptr<Program> program_;
  const Graph* graph_;
  bool optimize_;
  dnnl_fpmath_mode_t precision_;  ///< What may be computed in less than f32; never what is kept.
  std::int64_t opset_;
  std::optional<bool> channels_last_;
  std::map<NodeId, std::vector<NodeId>> twins_;  // By the first of each: the others.
  std::vector<State> states_;                    // By ValueId.
  std::vector<bool> done_;                       // By NodeId.
  std::vector<std::vector<ValueId>> holds_;      // By buffer: the values that lie in it.
};

}  // namespace penstock::onednn
