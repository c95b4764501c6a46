// Reads the node's constants and puts added values and nodes at its inputs and outputs.
#include "penstock/graph/frame_site.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

namespace penstock::graph {

std::int64_t FrameSite::opset() const {
  const auto found = graph_.info.opsets.find(node().domain);
  return found == graph_.info.opsets.end() ? 0 : found->second;
}

int FrameSite::axis(std::size_t input) const {
  return has_input(input) ? frames_.axis(node().inputs[input]) : kSameForAll;
}

const std::string& FrameSite::name(std::size_t input) const {
  return graph_.value(node().inputs[input]).name;
}

const Tensor* FrameSite::constant(std::size_t input) const {
  if (!has_input(input)) return nullptr;
  const auto& value = graph_.value(node().inputs[input]);
  return value.constant && !value.is_parameter ? &*value.constant : nullptr;
}

std::optional<Sizes> FrameSite::integers(std::size_t input) const {
  const auto* tensor = constant(input);
  if (tensor == nullptr) return std::nullopt;
  if (tensor->dtype() == DType::kI64) {
    const auto list = tensor->as<std::int64_t>();
    return Sizes(list.begin(), list.end());
  }
  if (tensor->dtype() != DType::kI32) return std::nullopt;
  const auto list = tensor->as<std::int32_t>();
  return Sizes(list.begin(), list.end());
}

std::optional<std::vector<float>> FrameSite::floats(std::size_t input) const {
  const auto* tensor = constant(input);
  if (tensor == nullptr || tensor->dtype() != DType::kF32) return std::nullopt;
  const auto list = tensor->as<float>();
  return std::vector<float>(list.begin(), list.end());
}

void FrameSite::give(std::size_t output, int axis) {
  if (has_output(output)) frames_.set_axis(node().outputs[output], axis);
}

void FrameSite::give_all(int axis) {
  for (std::size_t i = 0; i < node().outputs.size(); ++i) give(i, axis);
}

void FrameSite::place(std::size_t input, int axis) {
  if (this->axis(input) == axis) return;
  const auto id = frames_.moved(node().inputs[input], axis, index(id_));
  changed().inputs[input] = id;
}

void FrameSite::put(std::size_t input, const Sizes& integers) {
  const auto& old = *constant(input);
  Tensor tensor = Tensor::allocate(old.dtype(), old.dims());
  if (old.dtype() == DType::kI64) {
    std::ranges::copy(integers, tensor.as<std::int64_t>().begin());
  } else {
    std::ranges::transform(integers, tensor.as<std::int32_t>().begin(),
                           [](std::int64_t value) { return static_cast<std::int32_t>(value); });
  }
  changed().inputs[input] = frames_.add_constant(name(input), std::move(tensor));
}

Status FrameSite::repeat(std::size_t input, int axis) {
  const auto* old = constant(input);
  if (old == nullptr || old->kind() != Tensor::Kind::kDense || bits_of(old->dtype()) % 8 != 0) {
    if (std::cmp_greater_equal(axis, sizes(input).size())) {
      return refuse("'", name(input), "' is needed once for each frame, and is no constant");
    }
    const auto id = frames_.repeated(node().inputs[input], axis, index(id_));
    changed().inputs[input] = id;
    return {};
  }
  auto dims = old->dims();
  if (std::cmp_equal(axis, dims.size())) dims.push_back(1);
  const auto at = dims.begin() + axis;
  const auto outer = static_cast<std::size_t>(
      std::accumulate(dims.begin(), at, std::int64_t{1}, std::multiplies<>()));
  const std::size_t piece = outer == 0 ? 0 : old->bytes() / outer;
  *at *= frames();
  Tensor tensor = Tensor::allocate(old->dtype(), std::move(dims));
  auto* to = static_cast<std::byte*>(tensor.data());
  for (std::size_t i = 0; i < outer; ++i) {
    const auto* from = static_cast<const std::byte*>(old->data()) + i * piece;
    for (int frame = 0; frame < frames(); ++frame) to = std::copy_n(from, piece, to);
  }
  changed().inputs[input] = frames_.add_constant(name(input), std::move(tensor));
  return {};
}

Status FrameSite::compute(std::size_t input, const char* op, Sizes integers) {
  constexpr std::int64_t kOfIntegers = 12;  // Max and Min of older operator sets take floats only.
  const auto& type = graph_.value(node().inputs[input]).type;
  const auto onnx = graph_.info.opsets.find("");
  if (type.dtype != DType::kI64 || onnx == graph_.info.opsets.end() || onnx->second < kOfIntegers) {
    return refuse("'", name(input), "' is no constant");
  }
  Tensor tensor = Tensor::allocate(DType::kI64, {static_cast<std::int64_t>(integers.size())});
  std::ranges::copy(integers, tensor.as<std::int64_t>().begin());
  const auto other = frames_.add_constant(name(input), std::move(tensor));
  const auto id = frames_.computed(op, {node().inputs[input], other}, index(id_));
  changed().inputs[input] = id;
  return {};
}

Status FrameSite::multiply(std::size_t input, std::size_t element) {
  const auto count = sizes(input).front();
  if (is_open(count)) return refuse("'", name(input), "' is no constant");
  Sizes factors(static_cast<std::size_t>(count), 1);
  factors[element] = frames();
  PENSTOCK_CHECK_OK(compute(input, "Mul", std::move(factors)));
  return compute(input, "Max", {-1});
}

Status FrameSite::limit_to_one(std::size_t input, std::size_t element) {
  const auto count = sizes(input).front();
  if (is_open(count)) return refuse("'", name(input), "' is no constant");
  Sizes limits(static_cast<std::size_t>(count), std::numeric_limits<std::int64_t>::max());
  limits[element] = 1;
  return compute(input, "Min", std::move(limits));
}

void FrameSite::divide(Tensor by) {
  const auto output = node().outputs[0];
  const auto type = graph_.value(output).type;
  const auto counted = frames_.add_value(graph_.value(output).name, type, kSameForAll);
  changed().outputs[0] = counted;
  Node node;
  node.op = "Div";
  node.inputs = {counted, frames_.add_constant(graph_.value(output).name, std::move(by))};
  node.outputs = {output};
  frames_.insert(std::move(node), index(id_) + 1);
}

void FrameSite::count_one_frame(std::size_t element, std::size_t count) {
  Tensor by = Tensor::allocate(DType::kI64, {static_cast<std::int64_t>(count)});
  std::ranges::fill(by.as<std::int64_t>(), 1);
  by.as<std::int64_t>()[element] = frames();
  divide(std::move(by));
}

void FrameSite::count_one_frame() {
  Tensor by = Tensor::allocate(DType::kI64, {});
  by.as<std::int64_t>()[0] = frames();
  divide(std::move(by));
}

Status FrameSite::spread(std::initializer_list<std::size_t> inputs, bool behind) {
  const auto place = index(id_);
  const auto end = [&](const Sizes& sizes) { return behind ? static_cast<int>(sizes.size()) : 0; };
  for (const auto i : inputs) {
    const int to = end(sizes(i));
    if (axis(i) == kSameForAll) {
      PENSTOCK_CHECK_OK(repeat(i, to));
      continue;
    }
    const auto id = frames_.spread(node().inputs[i], to, place);
    changed().inputs[i] = id;
  }
  const auto output = node().outputs[0];
  const int to = end(made());
  auto type = graph_.value(output).type;
  type.dims.insert(type.dims.begin() + to, Dim{1, {}, Dim::kOpen});
  const auto spread = frames_.add_value(graph_.value(output).name, std::move(type), to);
  changed().outputs[0] = spread;
  frames_.gather_into(frames_.turned(spread, 0, place + 1), output, place + 1);
  return {};
}

void FrameSite::become_reshape(const Sizes& shape, const FrameGraph::Asked& asked) {
  Node reshape = node();  // A copy: the values that are added move it.
  reshape.op = "Reshape";
  reshape.attributes.clear();
  reshape.inputs.resize(1);
  frames_.shape(reshape, shape, asked, index(id_));
  changed() = std::move(reshape);
}

}  // namespace penstock::graph
