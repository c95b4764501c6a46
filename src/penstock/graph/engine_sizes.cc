// Corrects what ONNX's inference says of the operators whose sizes engines compute otherwise.
#include "penstock/graph/engine_sizes.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "penstock/graph/proto.h"

namespace penstock::graph {
namespace {

using Integers = std::vector<std::int64_t>;
using Size = std::optional<std::int64_t>;  ///< Empty: open.

std::string text_attribute(const onnx::InferenceContext& node, const char* name,
                           const char* otherwise) {
  const auto* attribute = node.getAttribute(name);
  return attribute != nullptr && attribute->has_s() ? attribute->s() : otherwise;
}

std::int64_t integer_attribute(const onnx::InferenceContext& node, const char* name,
                               std::int64_t otherwise) {
  const auto* attribute = node.getAttribute(name);
  return attribute != nullptr && attribute->has_i() ? attribute->i() : otherwise;
}

/// As many as `otherwise`, or nothing. An empty list is as good as none.
std::optional<Integers> integers_attribute(const onnx::InferenceContext& node, const char* name,
                                           Integers otherwise) {
  const auto* attribute = node.getAttribute(name);
  if (attribute == nullptr || attribute->ints_size() == 0) return otherwise;
  if (attribute->ints_size() != static_cast<int>(otherwise.size())) return {};
  return Integers(attribute->ints().begin(), attribute->ints().end());
}

bool is_same_padding(const std::string& auto_pad) {
  return auto_pad == "SAME_UPPER" || auto_pad == "SAME_LOWER";
}

/// Products of two such numbers do not overflow.
bool is_countable(std::int64_t least, std::initializer_list<std::int64_t> numbers) {
  return std::ranges::all_of(numbers,
                             [least](std::int64_t n) { return n >= least && n <= INT32_MAX; });
}

/// The shapes of a node's first input and output.
struct Shapes {
  onnx::TensorShapeProto in;
  onnx::TensorShapeProto* out;

  [[nodiscard]] Size size(int axis) const {
    return in.dim(axis).has_dim_value() ? Size(in.dim(axis).dim_value()) : Size();
  }
  void set(int axis, Size size) const {
    auto& dim = *out->mutable_dim(axis);
    dim.clear_value();
    if (size) dim.set_dim_value(*size);
  }
};

/// Nothing where they are not known, or not of one rank.
std::optional<Shapes> shapes_of(onnx::InferenceContext& node) {
  constexpr auto kHasShape = [](const onnx::TypeProto* type) {
    return type != nullptr && type->has_tensor_type() && type->tensor_type().has_shape();
  };
  if (node.getNumInputs() == 0 || node.getNumOutputs() == 0) return {};
  const auto* in = node.getInputType(0);
  auto* out = node.getOutputType(0);
  if (!kHasShape(in) || !kHasShape(out)) return {};
  Shapes shapes{in->tensor_type().shape(), out->mutable_tensor_type()->mutable_shape()};
  if (shapes.in.dim_size() != shapes.out->dim_size()) return {};
  return shapes;
}

/// A window along one dimension.
struct Sliding {
  std::int64_t kernel, stride, dilation, pad_begin, pad_end;
  bool same, lower, ceil;
};

/// ONNX Runtime's rule (PoolAttributes): what SAME_* pads is what a window that is not dilated
/// needs; a quotient to be rounded up is computed in float32.
Size pooled(std::int64_t size, Sliding window) {
  if (!is_countable(1, {size, window.kernel, window.stride, window.dilation})) return {};
  if (window.same) {
    const auto steps = (size + window.stride - 1) / window.stride;
    const auto total = (steps - 1) * window.stride + window.kernel - size;
    window.pad_begin = (window.lower ? total + 1 : total) / 2;
    window.pad_end = total - window.pad_begin;
  } else if (!is_countable(0, {window.pad_begin, window.pad_end})) {
    return {};
  }
  const auto room =
      size + window.pad_begin + window.pad_end - window.dilation * (window.kernel - 1) - 1;
  if (!window.ceil) return room / window.stride + 1;
  const auto steps = std::ceil(static_cast<float>(room) / static_cast<float>(window.stride));
  const auto last = static_cast<std::int64_t>(steps) * window.stride;
  const bool begins_inside = last < size + window.pad_begin;
  return static_cast<std::int64_t>(steps) + (begins_inside ? 1 : 0);
}

void correct_pool(onnx::InferenceContext& node) {
  const auto shapes = shapes_of(node);
  const auto* kernel = node.getAttribute("kernel_shape");
  if (!shapes || kernel == nullptr || kernel->ints_size() + 2 != shapes->in.dim_size()) return;
  const auto rank = static_cast<std::size_t>(kernel->ints_size());
  const auto strides = integers_attribute(node, "strides", Integers(rank, 1));
  const auto dilations = integers_attribute(node, "dilations", Integers(rank, 1));
  const auto auto_pad = text_attribute(node, "auto_pad", "NOTSET");
  auto pads = integers_attribute(node, "pads", Integers(2 * rank, 0));
  if (!strides || !dilations || !pads) return;
  if (auto_pad == "VALID") pads->assign(2 * rank, 0);
  for (std::size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i) + 2;
    const auto size = shapes->size(axis);
    if (!size) continue;
    const auto made =
        pooled(*size, {kernel->ints(axis - 2), (*strides)[i], (*dilations)[i], (*pads)[i],
                       (*pads)[rank + i], is_same_padding(auto_pad), auto_pad == "SAME_LOWER",
                       integer_attribute(node, "ceil_mode", 0) != 0});
    if (!made || *made >= 0) shapes->set(axis, made);
  }
  if (node.getNumOutputs() < 2) return;  // The indices of a MaxPool.
  *node.getOutputType(1)->mutable_tensor_type()->mutable_shape() = *shapes->out;
}

/// Of the weights' dimensions; empty where they are not known.
Integers kernel_of(const onnx::InferenceContext& node, std::size_t rank) {
  if (const auto* given = node.getAttribute("kernel_shape"); given != nullptr) {
    return {given->ints().begin(), given->ints().end()};
  }
  const auto* weights = node.getNumInputs() > 1 ? node.getInputType(1) : nullptr;
  if (weights == nullptr || !weights->has_tensor_type()) return {};
  const auto& shape = weights->tensor_type().shape();
  Integers kernel;
  for (int axis = 2; axis < shape.dim_size(); ++axis) {
    if (!shape.dim(axis).has_dim_value()) return {};
    kernel.push_back(shape.dim(axis).dim_value());
  }
  return kernel.size() == rank ? kernel : Integers();
}

/// ONNX Runtime's rule (ConvTransposeAttributes): what exceeds size * stride is cut off.
Size transposed(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                std::int64_t output_padding) {
  if (!is_countable(1, {size, kernel, stride, dilation}) || !is_countable(0, {output_padding})) {
    return {};
  }
  const auto whole = (size - 1) * stride + output_padding + (kernel - 1) * dilation + 1;
  return std::min(whole, size * stride);
}

void correct_transposed(onnx::InferenceContext& node) {
  const auto shapes = shapes_of(node);
  const auto* given = node.getAttribute("output_shape");
  if (!shapes || shapes->in.dim_size() < 3 || (given != nullptr && given->ints_size() > 0)) return;
  if (!is_same_padding(text_attribute(node, "auto_pad", "NOTSET"))) return;
  const auto rank = static_cast<std::size_t>(shapes->in.dim_size()) - 2;
  const auto kernel = kernel_of(node, rank);
  const auto strides = integers_attribute(node, "strides", Integers(rank, 1));
  const auto dilations = integers_attribute(node, "dilations", Integers(rank, 1));
  const auto more = integers_attribute(node, "output_padding", Integers(rank, 0));
  const bool known = kernel.size() == rank && strides && dilations && more;
  for (std::size_t i = 0; i < rank; ++i) {
    const int axis = static_cast<int>(i) + 2;
    const auto size = shapes->size(axis);
    if (!size) continue;
    shapes->set(axis, known
                          ? transposed(*size, kernel[i], (*strides)[i], (*dilations)[i], (*more)[i])
                          : Size());
  }
}

template <typename T>
std::optional<std::vector<T>> numbers_of(const onnx::TensorProto* proto, DType dtype) {
  if (proto == nullptr) return {};
  const auto tensor = tensor_of(*proto);
  if (!tensor || tensor->dtype() != dtype) return {};
  const auto numbers = tensor->as<T>();
  return std::vector<T>(numbers.begin(), numbers.end());
}

/// Opset 7 has an attribute for them, 9 and 10 a second input, later ones a third.
std::optional<std::vector<float>> scales_of(const onnx::InferenceContext& node, std::size_t input) {
  if (const auto* given = node.getAttribute("scales"); given != nullptr) {
    return std::vector<float>(given->floats().begin(), given->floats().end());
  }
  if (node.getNumInputs() <= input || !node.hasInput(input)) return {};
  return numbers_of<float>(node.getInputData(input), DType::kF32);
}

Size scaled(std::int64_t size, float scale) {
  const float product = scale * static_cast<float>(size);
  const bool is_size = product >= 0 && product <= static_cast<float>(INT32_MAX);
  return is_size ? Size(static_cast<std::int64_t>(product)) : Size();
}

void correct_resize(onnx::InferenceContext& node, std::size_t input) {
  const auto shapes = shapes_of(node);
  const auto scales = scales_of(node, input);
  if (!shapes || !scales || scales->empty()) return;
  const auto rank = shapes->in.dim_size();
  Integers axes;
  for (int axis = 0; axis < rank; ++axis) axes.push_back(axis);
  if (const auto* given = node.getAttribute("axes"); given != nullptr && given->ints_size() > 0) {
    axes.assign(given->ints().begin(), given->ints().end());
  }
  if (axes.size() != scales->size()) return;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) continue;
    const auto size = shapes->size(static_cast<int>(axis));
    if (size) shapes->set(static_cast<int>(axis), scaled(*size, (*scales)[i]));
  }
}

void correct_resize_of_11(onnx::InferenceContext& node) {
  constexpr std::size_t kScales = 2;
  correct_resize(node, kScales);
}

void correct_resize_of_10(onnx::InferenceContext& node) {
  constexpr std::size_t kScales = 1;
  correct_resize(node, kScales);
}

/// Engines differ in whether the difference of the ends is rounded to float32.
void correct_range(onnx::InferenceContext& node) {
  constexpr std::size_t kInputs = 3;
  auto* out = node.getOutputType(0);
  if (node.getNumInputs() != kInputs || out->tensor_type().shape().dim_size() != 1) return;
  std::vector<float> ends;
  for (std::size_t i = 0; i < kInputs; ++i) {
    const auto number = numbers_of<float>(node.getInputData(i), DType::kF32);
    if (!number || number->size() != 1) return;
    ends.push_back(number->front());
  }
  const auto step = static_cast<double>(ends[2]);
  const double rounded = std::ceil(static_cast<double>(ends[1] - ends[0]) / step);
  const double exact =
      std::ceil((static_cast<double>(ends[1]) - static_cast<double>(ends[0])) / step);
  if (rounded == exact || (rounded <= 0 && exact <= 0)) return;
  out->mutable_tensor_type()->mutable_shape()->mutable_dim(0)->clear_value();
}

/// A node as it would be had it been given the attributes that it leaves to their defaults.
class WithDefaults final : public onnx::InferenceContext {
 public:
  WithDefaults(onnx::InferenceContext& node, const onnx::OpSchema& schema)
      : node_(node), schema_(schema) {}

  const onnx::AttributeProto* getAttribute(const std::string& name) const override {
    if (const auto* given = node_.getAttribute(name); given != nullptr) return given;
    const auto usual = schema_.attributes().find(name);
    const bool has = usual != schema_.attributes().end() && usual->second.default_value.has_type();
    return has ? &usual->second.default_value : nullptr;
  }
  std::size_t getNumInputs() const override { return node_.getNumInputs(); }
  const onnx::TypeProto* getInputType(std::size_t i) const override {
    return node_.getInputType(i);
  }
  bool hasInput(std::size_t i) const override { return node_.hasInput(i); }
  const onnx::TensorProto* getInputData(std::size_t i) const override {
    return node_.getInputData(i);
  }
  std::size_t getNumOutputs() const override { return node_.getNumOutputs(); }
  onnx::TypeProto* getOutputType(std::size_t i) override { return node_.getOutputType(i); }
  bool hasOutput(std::size_t i) override { return node_.hasOutput(i); }
  onnx::GraphInferencer* getGraphAttributeInferencer(const std::string& name) override {
    return node_.getGraphAttributeInferencer(name);
  }
  const onnx::SparseTensorProto* getInputSparseData(std::size_t i) const override {
    return node_.getInputSparseData(i);
  }
  const onnx::TensorShapeProto* getSymbolicInput(std::size_t i) const override {
    return node_.getSymbolicInput(i);
  }
  std::string getDisplayName() const override { return node_.getDisplayName(); }

 private:
  onnx::InferenceContext& node_;
  const onnx::OpSchema& schema_;
};

void correct_nothing(onnx::InferenceContext& /*node*/) {}

/// What is done to an operator's inference.
struct EngineRule {
  std::string_view op;
  int since;  ///< The first opset that it holds for; a later entry of the same operator takes over.
  bool defaults;
  void (*correct)(onnx::InferenceContext& node);
};

constexpr EngineRule kEngineRules[] = {
    {"AveragePool", 1, false, correct_pool},      {"ConvTranspose", 1, false, correct_transposed},
    {"LpPool", 1, false, correct_pool},           {"MaxPool", 1, false, correct_pool},
    {"Range", 1, false, correct_range},           {"Resize", 10, false, correct_resize_of_10},
    {"Resize", 11, false, correct_resize_of_11},  {"STFT", 17, true, correct_nothing},
    {"Upsample", 7, false, correct_resize_of_10},
};

const EngineRule* rule_for(std::string_view op, int since) {
  const EngineRule* found = nullptr;
  for (const auto& rule : kEngineRules) {
    if (rule.op == op && rule.since <= since) found = &rule;
  }
  return found;
}

onnx::OpSchema corrected(const onnx::OpSchema& schema, const EngineRule& rule) {
  auto result = schema;
  result.TypeAndShapeInferenceFunction([&schema, &rule](onnx::InferenceContext& node) {
    WithDefaults complete(node, schema);
    schema.GetTypeAndShapeInferenceFunction()(rule.defaults ? complete : node);
    rule.correct(node);
  });
  return result;
}

class EngineSchemas final : public onnx::ISchemaRegistry {
 public:
  const onnx::OpSchema* GetSchema(const std::string& op, const int opset,
                                  const std::string& domain) const override {
    const auto* schema = onnx::OpSchemaRegistry::Instance()->GetSchema(op, opset, domain);
    if (schema == nullptr || !domain.empty()) return schema;
    const auto* rule = rule_for(op, schema->SinceVersion());
    if (rule == nullptr || !schema->has_type_and_shape_inference_function()) return schema;
    const std::scoped_lock lock(mutex_);
    const auto known = corrected_.find(schema);
    if (known != corrected_.end()) return &known->second;
    return &corrected_.emplace(schema, corrected(*schema, *rule)).first->second;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::map<const onnx::OpSchema*, onnx::OpSchema> corrected_;
};

}  // namespace

const onnx::ISchemaRegistry& engine_schemas() {
  static const EngineSchemas schemas;
  return schemas;
}

bool has_engine_sizes(std::string_view op) {
  return rule_for(op, INT32_MAX) != nullptr;
}

}  // namespace penstock::graph
