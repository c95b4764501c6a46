#include "penstock/graph/loops.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "penstock/graph/fold.h"
#include "penstock/graph/inliner.h"
#include "penstock/graph/proto.h"

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

struct KnownLoop {
  onnx::GraphProto body;
  std::int64_t trips = 0;
  std::size_t carried = 0;
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
    if (node.op != "Loop" || !node.domain.empty() || node.inputs.size() < kLoopInputs) {
      return std::nullopt;
    }
    auto body = nested_graph(graph_, node, "body");
    if (!body || !fits(node, *body) || has_random_body(node)) return std::nullopt;
    const auto trips = known_trips(node, *body);
    if (!trips) return std::nullopt;
    KnownLoop loop{std::move(*body), *trips, node.inputs.size() - kLoopInputs};
    if (loop.trips == 0)
      return knows_empty_outputs(node, loop) ? std::optional(loop) : std::nullopt;
    const auto nodes = std::max<std::size_t>(count_nodes(loop.body), 1);
    const auto left = kMostUnrolledNodes - draft_.unrolled_nodes;
    if (static_cast<std::uint64_t>(loop.trips) > left / nodes) return std::nullopt;
    draft_.unrolled_nodes += nodes * static_cast<std::size_t>(loop.trips);
    // What the file says of the sizes in its body need not hold for each iteration.
    loop.body.clear_value_info();
    return loop;
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
      if (made->op_type() == "Constant" && made->attribute_size() == 1) {
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
    for (std::size_t i = loop.carried; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != ValueId::kNone && !empty_of(loop, i)) return false;
    }
    return true;
  }

  static std::optional<Tensor> empty_of(const KnownLoop& loop, std::size_t output) {
    const auto type = type_of(loop.body.output(static_cast<int>(output) + 1).type());
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
    draft_.remove(node.name, "removed, a Loop of known count, the last of whose nodes makes",
                  first);
    std::vector<ValueId> carried(node.inputs.begin() + kLoopInputs, node.inputs.end());
    std::vector<std::vector<ValueId>> gathered(node.outputs.size() - loop.carried);
    if (loop.trips > 0) PENSTOCK_CHECK_OK(iterate(node, loop, carried, gathered));
    for (std::size_t i = 0; i < loop.carried; ++i) {
      const auto output = node.outputs[i];
      if (output != ValueId::kNone && output != carried[i]) {
        inliner_.add("Identity", {carried[i]}, output);
      }
    }
    inliner_.set_prefix(prefix_);
    for (std::size_t i = loop.carried; i < node.outputs.size(); ++i) {
      if (node.outputs[i] == ValueId::kNone) continue;
      gather(loop, i, gathered[i - loop.carried], node.outputs[i]);
    }
    return {};
  }

  /// Each iteration reads what the one before has made.
  Status iterate(const Node& node, const KnownLoop& loop, std::vector<ValueId>& carried,
                 std::vector<std::vector<ValueId>>& gathered) {
    PENSTOCK_TRY(Scope around, inliner_.copy_constants(loop.body, {}));
    around.merge(captures_of(graph_, node));
    const auto& inputs = loop.body.input();
    around[inputs[1].name()] = inliner_.constant(inputs[1].name(), true_scalar());
    for (std::int64_t trip = 0; trip < loop.trips; ++trip) {
      inliner_.set_prefix(concat(prefix_, trip, "/"));
      Scope scope = around;
      const auto& number = inputs[0].name();
      scope[number] = inliner_.constant(number, tensor_of_integer(trip, {}));
      for (std::size_t i = 0; i < loop.carried; ++i) {
        scope[inputs[static_cast<int>(i) + kLoopInputs].name()] = carried[i];
      }
      std::vector<ValueId> wanted(node.outputs.size() + 1, ValueId::kNone);
      if (trip + 1 == loop.trips) {
        std::copy_n(node.outputs.begin(), loop.carried, wanted.begin() + 1);
      }
      const auto made = inliner_.copy(loop.body, std::move(scope), wanted);
      for (std::size_t i = 0; i < loop.carried; ++i) carried[i] = made[i + 1];
      for (std::size_t i = 0; i < gathered.size(); ++i) {
        gathered[i].push_back(made[loop.carried + 1 + i]);
      }
    }
    return {};
  }

  /// What the iterations made of one output, along a new first dimension.
  void gather(const KnownLoop& loop, std::size_t output, const std::vector<ValueId>& values,
              ValueId to) {
    const auto name = graph_.value(to).name;
    if (values.empty()) {
      inliner_.add("Identity", {inliner_.constant(name, *empty_of(loop, output))}, to);
      return;
    }
    const auto opset = graph_.info.opsets.find("");
    std::vector<ValueId> axes;
    std::vector<Attribute> attributes;
    if (opset != graph_.info.opsets.end() && opset->second >= kAxesAreInputs) {
      axes.push_back(inliner_.constant("axes", tensor_of_integer(0, {1})));
    } else {
      attributes.push_back({"axes", std::vector<std::int64_t>{0}});
    }
    std::vector<ValueId> rows;
    for (const auto value : values) {
      std::vector<ValueId> inputs{value};
      inputs.insert(inputs.end(), axes.begin(), axes.end());
      const auto row = values.size() == 1 ? to : inliner_.fresh(name);
      rows.push_back(inliner_.add("Unsqueeze", std::move(inputs), row, attributes));
    }
    if (rows.size() == 1) return;
    inliner_.add("Concat", std::move(rows), to, {{"axis", std::int64_t{0}}});
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
