// Copies the body for each iteration; Gather takes a Scan's slices, Concat joins the outputs.
#include "penstock/graph/loops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "penstock/graph/inliner.h"
#include "penstock/graph/proto.h"
#include "penstock/graph/randomness.h"

namespace penstock::graph {
namespace {

constexpr std::int64_t kAxesAreInputs = 13;  ///< The operator set from which Unsqueeze reads them.
constexpr int kLoopInputs = 2;               ///< Before the carried values: count and condition.

Tensor tensor_of_integer(std::int64_t value, std::vector<std::int64_t> dims) {
  Tensor tensor = Tensor::allocate(DType::kI64, std::move(dims));
  tensor.as<std::int64_t>()[0] = value;
  return tensor;
}

Tensor true_scalar() {
  Tensor tensor = Tensor::allocate(DType::kBool, {});
  *static_cast<unsigned char*>(tensor.data()) = 1;
  return tensor;
}

/// Along which dimension a Scan goes through a tensor, and whether from its end.
struct Direction {
  std::int64_t axis = 0;
  bool backwards = false;
};

/// A Loop or a Scan.
struct KnownLoop {
  onnx::GraphProto body;
  std::int64_t trips = 0;
  bool is_scan = false;
  std::vector<ValueId> begin;       ///< Of the values that an iteration hands to the next.
  std::vector<ValueId> read;        ///< Tensors of which each iteration reads a slice.
  std::vector<Direction> read_so;   ///< Beside `read`.
  std::vector<Direction> gathered;  ///< Of the outputs behind those of `begin`.

  /// Of the body: the number of the iteration and the condition, which a Scan has not.
  [[nodiscard]] int leading_inputs() const { return is_scan ? 0 : kLoopInputs; }
  [[nodiscard]] int leading_outputs() const { return is_scan ? 0 : 1; }
};

class LoopUnroller {
 public:
  explicit LoopUnroller(Draft& draft) : draft_(draft), graph_(draft.graph), inliner_(draft) {}

  Result<bool> run() {
    bool any = false;
    for (std::size_t i = 0; i < inliner_.nodes().size(); ++i) {
      const auto& node = inliner_.nodes()[i];
      inliner_.begin(i);
      const auto loop = known_loop(node);
      if (loop) PENSTOCK_CHECK_OK(unroll(node, *loop));
      if (!loop) inliner_.add(node);
      any = any || loop;
    }
    inliner_.finish();
    return any;
  }

 private:
  [[nodiscard]] std::optional<KnownLoop> known_loop(const Node& node) {
    if (!node.domain.empty() || (node.op != "Loop" && node.op != "Scan")) return std::nullopt;
    auto body = nested_graph(graph_, node, "body");
    if (!body || is_random(graph_, node)) return std::nullopt;
    // What the file says of the sizes in its body need not hold for each iteration.
    body->clear_value_info();
    auto loop =
        node.op == "Loop" ? as_loop(node, *std::move(body)) : as_scan(node, *std::move(body));
    if (!loop) return std::nullopt;
    if (loop->trips == 0) return knows_empty_outputs(node, *loop) ? std::move(loop) : std::nullopt;
    const auto nodes = std::max<std::size_t>(
        count_nodes(loop->body) + loop->read.size() + loop->gathered.size(), 1);
    const auto left = kMostUnrolledNodes - draft_.unrolled_nodes;
    if (std::cmp_greater(loop->trips, left / nodes)) return std::nullopt;
    draft_.unrolled_nodes += nodes * static_cast<std::size_t>(loop->trips);
    return loop;
  }

  [[nodiscard]] std::optional<KnownLoop> as_loop(const Node& node, onnx::GraphProto body) const {
    if (node.inputs.size() < kLoopInputs || !fits(node, body)) return std::nullopt;
    const auto trips = known_trips(node, body);
    if (!trips) return std::nullopt;
    KnownLoop loop{.body = std::move(body), .trips = *trips};
    loop.begin.assign(node.inputs.begin() + kLoopInputs, node.inputs.end());
    loop.gathered.resize(node.outputs.size() - loop.begin.size());
    return loop;
  }

  [[nodiscard]] std::optional<KnownLoop> as_scan(const Node& node, onnx::GraphProto body) const {
    constexpr std::int64_t kWithoutBatch = 9;  // The operator set that dropped Scan's batches.
    const auto opset = graph_.info.opsets.find("");
    const auto count = static_cast<std::size_t>(node.int_or("num_scan_inputs", 0));
    const auto inputs = node.inputs.size();
    const bool fits = opset != graph_.info.opsets.end() && opset->second >= kWithoutBatch &&
                      count > 0 && count <= inputs && node.outputs.size() + count >= inputs &&
                      std::ranges::count(node.inputs, ValueId::kNone) == 0 &&
                      static_cast<std::size_t>(body.input_size()) == inputs &&
                      static_cast<std::size_t>(body.output_size()) == node.outputs.size();
    if (!fits) return std::nullopt;
    KnownLoop scan{.body = std::move(body), .is_scan = true};
    const auto first = node.inputs.begin() + static_cast<std::ptrdiff_t>(inputs - count);
    scan.begin.assign(node.inputs.begin(), first);
    scan.read.assign(first, node.inputs.end());
    scan.read_so = directions_of(node, "scan_input", count);
    scan.gathered = directions_of(node, "scan_output", node.outputs.size() - scan.begin.size());
    const auto counted_from_the_end = [](const Direction& so) { return so.axis < 0; };
    if (std::ranges::any_of(scan.read_so, counted_from_the_end) ||
        std::ranges::any_of(scan.gathered, counted_from_the_end)) {
      return std::nullopt;
    }
    const auto& type = graph_.value(scan.read.front()).type;
    const auto axis = static_cast<std::size_t>(scan.read_so.front().axis);
    if (!type.ranked || axis >= type.dims.size() || !type.dims[axis].fixed()) return std::nullopt;
    scan.trips = type.dims[axis].size;
    return scan.trips > 0 ? std::optional(std::move(scan)) : std::nullopt;
  }

  static std::vector<Direction> directions_of(const Node& node, const std::string& of,
                                              std::size_t count) {
    const auto axes = node.ints_or(of + "_axes", {});
    const auto backwards = node.ints_or(of + "_directions", {});
    std::vector<Direction> directions(count);
    for (std::size_t i = 0; i < count; ++i) {
      if (i < axes.size()) directions[i].axis = axes[i];
      if (i < backwards.size()) directions[i].backwards = backwards[i] != 0;
    }
    return directions;
  }

  /// Whether node and body agree on how many values there are.
  static bool fits(const Node& node, const onnx::GraphProto& body) {
    const auto inputs = static_cast<std::size_t>(body.input_size());
    const auto outputs = static_cast<std::size_t>(body.output_size());
    const auto carried = node.inputs.size() - kLoopInputs;
    return inputs == node.inputs.size() && outputs == node.outputs.size() + 1 &&
           node.outputs.size() >= carried &&
           std::none_of(node.inputs.begin() + kLoopInputs, node.inputs.end(),
                        [](ValueId id) { return id == ValueId::kNone; });
  }

  [[nodiscard]] std::optional<std::int64_t> known_trips(const Node& node,
                                                        const onnx::GraphProto& body) const {
    const auto* count = known_scalar(graph_, node, 0, DType::kI64);
    const auto* condition = known_scalar(graph_, node, 1, DType::kBool);
    if (node.inputs[1] != ValueId::kNone && condition == nullptr) return std::nullopt;
    const bool begins =
        condition == nullptr || *static_cast<const unsigned char*>(condition->data()) != 0;
    if (!begins) return 0;
    if (count == nullptr) return std::nullopt;
    const auto trips = std::max<std::int64_t>(count->as<std::int64_t>()[0], 0);
    return trips == 0 || goes_on(node, body) ? std::optional(trips) : std::nullopt;
  }

  /// Whether the condition that the body makes is always true: the one that it gets, or a constant.
  [[nodiscard]] bool goes_on(const Node& node, const onnx::GraphProto& body) const {
    std::string name = body.output(0).name();
    for (auto made = body.node().rbegin(); made != body.node().rend(); ++made) {
      if (made->output_size() == 0 || made->output(0) != name) continue;
      if (is_constant(*made) && made->attribute_size() == 1) {
        return is_true(tensor_of(made->attribute(0).t()));
      }
      if (made->op_type() != "Identity" || made->input_size() != 1) return false;
      name = made->input(0);
    }
    if (name == body.input(1).name()) return true;
    for (const auto& constant : body.initializer()) {
      if (constant.name() == name) return is_true(tensor_of(constant));
    }
    const auto scope = captures_of(graph_, node);
    const auto captured = scope.find(name);
    if (captured == scope.end()) return false;
    const auto& value = graph_.value(captured->second);
    return value.constant && !value.is_parameter && !value.is_input && is_true(*value.constant);
  }

  static bool is_true(const Result<Tensor>& tensor) {
    return tensor && tensor->dtype() == DType::kBool && tensor->count() == 1 &&
           *static_cast<const unsigned char*>(tensor->data()) != 0;
  }

  /// Whether the shapes are known that outputs have which gather nothing.
  static bool knows_empty_outputs(const Node& node, const KnownLoop& loop) {
    for (std::size_t i = loop.begin.size(); i < node.outputs.size(); ++i) {
      if (node.outputs[i] != ValueId::kNone && !empty_of(loop, i)) return false;
    }
    return true;
  }

  static std::optional<Tensor> empty_of(const KnownLoop& loop, std::size_t output) {
    const auto& declared = loop.body.output(static_cast<int>(output) + loop.leading_outputs());
    const auto type = type_of(declared.type());
    const bool known =
        type.kind == Type::Kind::kTensor && type.ranked && type.fixed() && bits_of(type.dtype) > 0;
    if (!known) return std::nullopt;
    std::vector<std::int64_t> dims{0};
    for (const auto& dim : type.dims) dims.push_back(dim.size);
    return Tensor::allocate(type.dtype, std::move(dims));
  }

  Status unroll(const Node& node, const KnownLoop& loop) {
    std::string first;
    for (const auto id : node.outputs) {
      if (first.empty() && id != ValueId::kNone) first = graph_.value(id).name;
    }
    prefix_ = (node.name.empty() ? first : node.name) + "/";
    inliner_.set_prefix(prefix_);
    draft_.remove(node.name,
                  concat("removed, a ", node.op, " of known count, the last of whose nodes makes"),
                  first);
    auto carried = loop.begin;
    std::vector<std::vector<ValueId>> gathered(loop.gathered.size());
    if (loop.trips > 0) PENSTOCK_CHECK_OK(iterate(node, loop, carried, gathered));
    for (std::size_t i = 0; i < carried.size(); ++i) {
      const auto output = node.outputs[i];
      if (output != ValueId::kNone && output != carried[i]) {
        inliner_.add("Identity", {carried[i]}, output);
      }
    }
    inliner_.set_prefix(prefix_);
    for (std::size_t i = 0; i < gathered.size(); ++i) {
      const auto output = carried.size() + i;
      if (node.outputs[output] == ValueId::kNone) continue;
      if (loop.gathered[i].backwards) std::ranges::reverse(gathered[i]);
      gather(loop, output, gathered[i], node.outputs[output]);
    }
    return {};
  }

  /// Each iteration reads what the one before has made.
  Status iterate(const Node& node, const KnownLoop& loop, std::vector<ValueId>& carried,
                 std::vector<std::vector<ValueId>>& gathered) {
    PENSTOCK_TRY(Scope around, inliner_.copy_constants(loop.body, {}));
    around.merge(captures_of(graph_, node));
    const auto& inputs = loop.body.input();
    const auto leading = loop.leading_inputs();
    if (!loop.is_scan) {
      around[inputs[1].name()] = inliner_.constant(inputs[1].name(), true_scalar());
    }
    for (std::int64_t trip = 0; trip < loop.trips; ++trip) {
      inliner_.set_prefix(concat(prefix_, trip, "/"));
      Scope scope = around;
      if (!loop.is_scan) {
        const auto& number = inputs[0].name();
        scope[number] = inliner_.constant(number, tensor_of_integer(trip, {}));
      }
      for (std::size_t i = 0; i < carried.size(); ++i) {
        scope[inputs[static_cast<int>(i) + leading].name()] = carried[i];
      }
      for (std::size_t i = 0; i < loop.read.size(); ++i) {
        const auto& name = inputs[static_cast<int>(carried.size() + i) + leading].name();
        scope[name] = slice(loop, i, trip, name);
      }
      const auto outputs = static_cast<std::size_t>(loop.leading_outputs());
      std::vector<ValueId> wanted(node.outputs.size() + outputs, ValueId::kNone);
      if (trip + 1 == loop.trips) {
        std::copy_n(node.outputs.begin(), carried.size(), wanted.begin() + loop.leading_outputs());
      }
      const auto made = inliner_.copy(loop.body, std::move(scope), wanted);
      for (std::size_t i = 0; i < carried.size(); ++i) carried[i] = made[outputs + i];
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        gathered[i].push_back(made[outputs + carried.size() + i]);
      }
    }
    return {};
  }

  /// What iteration `trip` of a Scan reads of a tensor.
  ValueId slice(const KnownLoop& scan, std::size_t i, std::int64_t trip, const std::string& name) {
    const auto& so = scan.read_so[i];
    const auto place = so.backwards ? scan.trips - 1 - trip : trip;
    const auto at = inliner_.constant(name + "/at", tensor_of_integer(place, {}));
    return inliner_.add("Gather", {scan.read[i], at}, inliner_.fresh(name), {{"axis", so.axis}});
  }

  /// What the iterations made of one output, along a new dimension.
  void gather(const KnownLoop& loop, std::size_t output, const std::vector<ValueId>& values,
              ValueId to) {
    const auto name = graph_.value(to).name;
    if (values.empty()) {
      inliner_.add("Identity", {inliner_.constant(name, *empty_of(loop, output))}, to);
      return;
    }
    const auto axis = loop.gathered[output - loop.begin.size()].axis;
    const auto opset = graph_.info.opsets.find("");
    std::vector<ValueId> axes;
    std::vector<Attribute> attributes;
    if (opset != graph_.info.opsets.end() && opset->second >= kAxesAreInputs) {
      axes.push_back(inliner_.constant("axes", tensor_of_integer(axis, {1})));
    } else {
      attributes.push_back({"axes", std::vector<std::int64_t>{axis}});
    }
    std::vector<ValueId> rows;
    for (const auto value : values) {
      std::vector<ValueId> inputs{value};
      inputs.insert(inputs.end(), axes.begin(), axes.end());
      const auto row = values.size() == 1 ? to : inliner_.fresh(name);
      rows.push_back(inliner_.add("Unsqueeze", std::move(inputs), row, attributes));
    }
    if (rows.size() == 1) return;
    inliner_.add("Concat", std::move(rows), to, {{"axis", axis}});
  }

  Draft& draft_;
  Graph& graph_;
  Inliner inliner_;
  std::string prefix_;  // Of the loop in hand.
};

}  // namespace

Result<bool> unroll_known_loops(Draft& draft) {
  return LoopUnroller(draft).run();
}

}  // namespace penstock::graph
