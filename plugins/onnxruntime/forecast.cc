#include "forecast.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace penstock::ort {

/// How an output of that type can be foreseen.
ShapeForecast::Output ShapeForecast::read(const Type& type, std::span<const backend::Port> inputs) {
  // The input dimension of that symbol, if there is one.
  const auto find_symbol = [&](const std::string& symbol) -> std::optional<Axis> {
    if (symbol.empty()) return std::nullopt;
    for (std::size_t input = 0; input < inputs.size(); ++input) {
      const auto& dims = inputs[input].type.dims;
      const auto at = std::ranges::find(dims, symbol, &Dim::symbol);
      if (at == dims.end()) continue;
      return Axis{Dim::kOpen, input, static_cast<std::size_t>(at - dims.begin())};
    }
    return std::nullopt;
  };
  if (type.kind != Type::Kind::kTensor || bits_of(type.dtype) == 0) return {};
  Output guessed{Source::kLast, {}, {}};
  if (!type.ranked) return guessed;
  Output output{type.fixed() ? Source::kFixed : Source::kInputs, {}, {}};
  for (const Dim& dim : type.dims) {
    const auto axis = dim.fixed() ? Axis{dim.size, 0, 0} : find_symbol(dim.symbol);
    if (!axis) return guessed;
    output.axes.push_back(*axis);
  }
  return output;
}

ShapeForecast::ShapeForecast(std::span<const backend::Port> inputs,
                             std::span<const backend::Port> outputs) {
  for (const backend::Port& port : outputs) outputs_.push_back(read(port.type, inputs));
}

/// Only where an output's shape is foreseen from the last run.
void ShapeForecast::begin(std::span<const Tensor* const> inputs) {
  same_shapes_ = std::exchange(learned_, false);
  if (std::ranges::none_of(outputs_,
                           [](const Output& each) { return each.source == Source::kLast; })) {
    return;
  }
  last_shapes_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (last_shapes_[i] == inputs[i]->dims()) continue;
    last_shapes_[i] = inputs[i]->dims();
    same_shapes_ = false;
  }
}

const std::vector<std::int64_t>* ShapeForecast::dims(std::size_t i,
                                                     std::span<const Tensor* const> inputs) {
  Output& output = outputs_[i];
  if (output.source == Source::kEngine) return nullptr;
  if (output.source == Source::kLast) return same_shapes_ ? &output.dims : nullptr;
  output.dims.clear();
  for (const auto& axis : output.axes) {
    output.dims.push_back(axis.size != Dim::kOpen ? axis.size
                                                  : inputs[axis.input]->dims()[axis.axis]);
  }
  return &output.dims;
}

void ShapeForecast::learn(std::size_t i, const std::vector<std::int64_t>& dims, bool refused) {
  Output& output = outputs_[i];
  if (refused && dims != output.dims) {
    output.source = output.source == Source::kLast ? Source::kEngine : Source::kLast;
  }
  output.dims = dims;
}

}  // namespace penstock::ort
