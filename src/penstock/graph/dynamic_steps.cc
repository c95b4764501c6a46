// Puts the operators of ONNX's own function body in the place of the node, with a factor or two.
#include "penstock/graph/dynamic_steps.h"

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "penstock/base/error.h"
#include "penstock/graph/draft.h"
#include "penstock/graph/free_name.h"

namespace penstock::graph {
namespace {

constexpr std::int64_t kUint8 = 2;  // Of ONNX's types of elements.

/// Writes one node anew.
class Steps {
 public:
  Steps(Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  void write(const StepFactors& factors) {
    const auto x = node_.inputs.at(0);
    const auto zero = constant("zero", 0), most = constant("most", 255);
    const auto low = add("Min", {add("ReduceMin", {x}, "lowest", scalar()), zero}, "low");
    const auto high = add("Max", {add("ReduceMax", {x}, "highest", scalar()), zero}, "high");
    const auto range = add("Sub", {high, low}, "range");
    // Of zeros alone any step will do, but none that is 0.
    const auto least = constant("least", std::numeric_limits<float>::min());
    const auto step = add("Max", {add("Div", {range, most}, "exact_step"), least}, "step");
    const auto of_zero = add("Mul", {step, constant("of_zero", factors.of_zero)}, "zero_step");
    const auto below = add("Neg", {add("Div", {low, of_zero}, "steps_below")}, "places_below");
    const auto place = add("Round", {add("Clip", {below, zero, most}, "inside")}, "place");
    end("Cast", {place}, 2, {{"to", kUint8}});
    end("Mul", {step, constant("of_steps", factors.of_steps)}, 1);
    end("QuantizeLinear", {x, output(1), output(2)}, 0);
  }

 private:
  static std::vector<Attribute> scalar() { return {{"keepdims", std::int64_t{0}}}; }

  [[nodiscard]] std::string named(std::string_view what) const {
    return concat(node_.name, "/", what);
  }

  ValueId value(const std::string& name, DType dtype) {
    Value made;
    made.name = free_name(name, [this](const auto& free) { return !graph_.find_value(free); });
    made.type = Type::tensor(dtype, std::vector<Dim>());
    graph_.values.push_back(std::move(made));
    return static_cast<ValueId>(graph_.values.size() - 1);
  }

  ValueId constant(std::string_view what, float number) {
    const auto id = value(named(what), DType::kF32);
    auto tensor = Tensor::allocate(DType::kF32, std::vector<std::int64_t>());
    tensor.as<float>()[0] = number;
    graph_.values.back().constant = std::move(tensor);
    return id;
  }

  /// What the node makes; in its stead where nobody reads it.
  ValueId output(std::size_t i) {
    if (node_.outputs.size() <= i) node_.outputs.resize(i + 1, ValueId::kNone);
    if (node_.outputs[i] == ValueId::kNone) {
      node_.outputs[i] = value(named(concat("unread", i)), i == 1 ? DType::kF32 : DType::kU8);
    }
    return node_.outputs[i];
  }

  ValueId add(const char* op, std::vector<ValueId> inputs, std::string_view what,
              std::vector<Attribute> attributes = {}) {
    const auto made = value(named(what), DType::kF32);
    push(op, std::move(inputs), made, named(what), std::move(attributes));
    return made;
  }

  void end(const char* op, std::vector<ValueId> inputs, std::size_t i,
           std::vector<Attribute> attributes = {}) {
    push(op, std::move(inputs), output(i), named(concat("output", i)), std::move(attributes));
  }

  void push(const char* op, std::vector<ValueId> inputs, ValueId made, std::string name,
            std::vector<Attribute> attributes) {
    Node node{.name = std::move(name), .op = op};
    node.inputs = std::move(inputs);
    node.outputs = {made};
    node.attributes = std::move(attributes);
    graph_.nodes.push_back(std::move(node));
  }

  Graph& graph_;
  Node node_;
};

}  // namespace

std::size_t write_dynamic_steps(Graph& graph,
                                const std::function<StepFactors(std::size_t i)>& factors_of) {
  std::size_t written = 0;
  auto nodes = std::exchange(graph.nodes, {});
  for (auto& node : nodes) {
    if (node.op == "DynamicQuantizeLinear" && node.domain.empty()) {
      Steps(graph, node).write(factors_of(written++));
    } else {
      graph.nodes.push_back(std::move(node));
    }
  }
  graph.pipeline_stages.assign(graph.nodes.size(), -1);
  link(graph);
  return written;
}

}  // namespace penstock::graph
