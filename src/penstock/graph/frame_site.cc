#include "penstock/graph/frame_site.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

namespace penstock::graph {

std::int64_t FrameSite::opset() const {
  const auto found = graph_.info.opsets.find(node().domain);
  return found == graph_.info.opsets.end() ? 0 : found->second;
}

int FrameSite::axis(std::size_t input) const {
  return has_input(input) ? axes_[index(node().inputs[input])] : kSameForAll;
}

const std::string& FrameSite::name(std::size_t input) const {
  return graph_.value(node().inputs[input]).name;
}

Sizes FrameSite::sizes_of(ValueId id) const {
  Sizes sizes;
  for (const auto& dim : graph_.value(id).type.dims) sizes.push_back(dim.size);
  return sizes;
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
  if (has_output(output)) axes_[index(node().outputs[output])] = axis;
}

void FrameSite::give_all(int axis) {
  for (std::size_t i = 0; i < node().outputs.size(); ++i) give(i, axis);
}

ValueId FrameSite::add_constant(const std::string& stem, Tensor tensor) {
  Value value;
  value.name = concat(stem, "_of_", frames_);
  for (int copy = 2; graph_.find_value(value.name); ++copy) {
    value.name = concat(stem, "_of_", frames_, "_", copy);
  }
  value.type = tensor.type();
  value.constant = std::move(tensor);
  graph_.values.push_back(std::move(value));
  axes_.push_back(kSameForAll);
  return static_cast<ValueId>(graph_.values.size() - 1);
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
  graph_.nodes[index(id_)].inputs[input] = add_constant(name(input), std::move(tensor));
}

Status FrameSite::repeat(std::size_t input, int axis) {
  const auto* old = constant(input);
  if (old == nullptr || old->kind() != Tensor::Kind::kDense || bits_of(old->dtype()) % 8 != 0) {
    return refuse("'", name(input), "' is needed once for each frame, and is no constant");
  }
  auto dims = old->dims();
  const auto at = dims.begin() + axis;
  const auto outer = static_cast<std::size_t>(
      std::accumulate(dims.begin(), at, std::int64_t{1}, std::multiplies<>()));
  const std::size_t piece = outer == 0 ? 0 : old->bytes() / outer;
  *at *= frames_;
  Tensor tensor = Tensor::allocate(old->dtype(), std::move(dims));
  auto* to = static_cast<std::byte*>(tensor.data());
  for (std::size_t i = 0; i < outer; ++i) {
    const auto* from = static_cast<const std::byte*>(old->data()) + i * piece;
    for (int frame = 0; frame < frames_; ++frame, to += piece) std::memcpy(to, from, piece);
  }
  graph_.nodes[index(id_)].inputs[input] = add_constant(name(input), std::move(tensor));
  return {};
}

void FrameSite::become_reshape(const Sizes& shape) {
  Tensor tensor = Tensor::allocate(DType::kI64, {static_cast<std::int64_t>(shape.size())});
  std::ranges::copy(shape, tensor.as<std::int64_t>().begin());
  const auto id = add_constant(node().name + "_shape", std::move(tensor));
  auto& node = graph_.nodes[index(id_)];
  node.op = "Reshape";
  node.attributes.clear();
  node.inputs = {node.inputs[0], id};
}

}  // namespace penstock::graph
