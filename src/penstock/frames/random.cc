// Seeds a generator by seed and frame number, and advises on inputs whose values may not fit.
#include "penstock/frames/random.h"

#include <algorithm>
#include <utility>

#include "penstock/base/option_name.h"
#include "penstock/frames/values.h"
#include "penstock/graph/containers.h"
#include "penstock/tensor/number.h"
#include "penstock/tensor/random.h"

namespace penstock::frames {
namespace {

bool is_unbounded(const Type& type) {
  return std::ranges::any_of(
      type.dims, [](const Dim& dim) { return !dim.fixed() && dim.bound == Dim::kOpen; });
}

// A sequence has two to four values, an optional has one.
Result<Tensor> random_value(const Type& type, Random& random, const RandomOptions& options) {
  const auto container = graph::container_of(type);
  if (!container || container->kind == graph::Container::Kind::kClosed)
    return random_tensor(type, random, options);
  if (container->kind == graph::Container::Kind::kOptional)
    return random_value(container->inside, random, options);
  std::vector<Tensor> items(2 + (random.bits() % 3));
  for (Tensor& item : items) {
    PENSTOCK_TRY(item, random_value(container->inside, random, options));
  }
  return Tensor::sequence(std::move(items));
}

/// Of open dimensions, by their symbol.
std::map<std::string, std::int64_t> sizes_of(const std::vector<plan::TensorInfo>& inputs,
                                             const std::map<std::size_t, Tensor>& given) {
  std::map<std::string, std::int64_t> sizes;
  for (const auto& [i, value] : given) {
    const auto& dims = inputs[i].type.dims;
    for (std::size_t axis = 0; axis < std::min(dims.size(), value.dims().size()); ++axis) {
      if (dims[axis].fixed() || dims[axis].symbol.empty()) continue;
      sizes.emplace(dims[axis].symbol, value.dims()[axis]);
    }
  }
  return sizes;
}

/// ", 'rate' bound to a value"; empty: none is.
std::string text_of_bound(const std::vector<std::string>& bound) {
  if (bound.empty()) return {};
  return concat(", ", join(bound, ", ", [](const auto& name) { return concat("'", name, "'"); }),
                bound.size() == 1 ? " bound to a value" : " bound to values");
}

}  // namespace

Result<Frame> completed_frame(const std::vector<plan::TensorInfo>& inputs,
                              const std::map<std::size_t, Tensor>& given,
                              const RandomValues& values, std::uint64_t number) {
  const auto sizes = sizes_of(inputs, given);
  std::vector<plan::TensorInfo> others;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (given.contains(i)) continue;
    auto& other = others.emplace_back(inputs[i]);
    for (auto& dim : other.type.dims) {
      const auto known = sizes.find(dim.symbol);
      if (!dim.fixed() && known != sizes.end()) dim.size = known->second;
    }
  }
  PENSTOCK_TRY(auto frame, random_frame(others, values, number));
  for (const auto& [i, value] : given) {
    frame.insert(frame.begin() + static_cast<std::ptrdiff_t>(i), value);
  }
  return frame;
}

Result<Frame> random_frame(const std::vector<plan::TensorInfo>& inputs, const RandomValues& values,
                           std::uint64_t number) {
  if (values.integer_limit == 0) {
    return invalid_argument("integer_limit: expected 1 or more, as random integers stay under it");
  }
  Random seeds(values.seed);
  const std::uint64_t base = seeds.bits() + number * 0x9E3779B97F4A7C15U;
  Random random(base);
  Frame frame;
  for (const auto& info : inputs) {
    auto value = random_value(info.type, random,
                              {.integer_limit = values.integer_limit,
                               .scale = values.scale,
                               .range = info.range,
                               .words = info.words});
    if (!value) return std::move(value).error().within({Where::kInput, info.name});
    frame.push_back(*std::move(value));
  }
  return frame;
}

Result<std::vector<Frame>> random_frames(const std::vector<plan::TensorInfo>& inputs,
                                         const RandomValues& values, std::uint64_t count) {
  std::vector<Frame> frames;
  for (std::uint64_t number = 0; number < count; ++number) {
    PENSTOCK_TRY(auto frame, random_frame(inputs, values, number));
    frames.push_back(std::move(frame));
  }
  return frames;
}

std::string advice_on_random(const Error& error, const std::vector<plan::TensorInfo>& inputs,
                             std::string_view frames, const std::vector<std::string>& bound) {
  const bool late_or_full =
      error.code == Code::kDeadlineExceeded || error.code == Code::kResourceExhausted;
  // What cannot be compiled names its model; what runs, its frame.
  const bool before_any_frame =
      error.find(Where::kModel) != nullptr && error.find(Where::kFrame) == nullptr;
  const bool other_model = error.code == Code::kFailedPrecondition;
  const bool at_fault = error.code == Code::kInternal;  // A backend, with whatever frames.
  if (late_or_full || before_any_frame || other_model || at_fault) return {};
  std::vector<std::string> integers, open, sized, of_bytes, advice;
  for (const auto& info : inputs) {
    const auto name = "'" + info.name + "'";
    if (takes_bytes(info.type)) {
      of_bytes.push_back(name);
      continue;
    }
    if (is_wide_integer(info.type.dtype)) integers.push_back(name);
    if (!is_unbounded(info.type)) continue;
    const bool usual = std::ranges::any_of(
        info.type.dims, [](const Dim& dim) { return !dim.fixed() && dim.likely() != 1; });
    if (usual) {
      sized.push_back(concat(
          name, " (",
          join(info.type.dims, "x", [](const Dim& dim) { return std::to_string(dim.likely()); }),
          ")"));
    } else {
      open.push_back(name);
    }
  }
  std::string text = "; the inputs were random";
  if (!integers.empty()) {
    text += ", integers in " + join(integers, ", ");
    advice.push_back(concat("bind what never changes (", OptionName::kConstants,
                            ", in an application 'constants')"));
  }
  text += text_of_bound(bound);
  if (!bound.empty()) {
    advice.push_back(
        concat("bind another value (", OptionName::kConstants, ", in an application 'constants')"));
  }
  if (!open.empty()) text += ", open dimensions taken as 1 in " + join(open, ", ");
  if (!sized.empty()) text += ", sizes taken for open dimensions in " + join(sized, ", ");
  if (!open.empty() || !sized.empty()) {
    advice.push_back(
        concat("fix sizes (", OptionName::kShapes, ", in an application 'shapes' and 'inputs')"));
  }
  if (!of_bytes.empty()) {
    advice.push_back(concat("give files, whose bytes are the values of ", join(of_bytes, ", "),
                            " (", OptionName::kFrames, ")"));
  } else if (!frames.empty()) {
    advice.emplace_back(frames);
  }
  for (std::size_t i = 0; i < advice.size(); ++i) {
    text += (i == 0 ? ": " : i + 1 < advice.size() ? ", " : ", or ") + advice[i];
  }
  return text;
}

std::string advice_on_given(const Error& error, const std::vector<plan::TensorInfo>& inputs,
                            const Frame* frame, std::string_view option, const NotGiven& others) {
  const bool of_frame = error.find(Where::kFrame) != nullptr || error.find(Where::kNode) != nullptr;
  const bool of_values = error.code == Code::kInvalidArgument || error.code == Code::kUnknown ||
                         error.code == Code::kOutOfRange;  // Engines do not always say which.
  if (!of_frame || !of_values) return {};
  std::vector<std::string> given, random;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    auto text = concat("'", inputs[i].name, "'");
    if (frame != nullptr && i < frame->size()) text += concat(" ", (*frame)[i].type());
    const bool is_random = std::ranges::find(others.random, inputs[i].name) != others.random.end();
    (is_random ? random : given).push_back(std::move(text));
  }
  const bool of_function = error.find(Where::kFunction) != nullptr;
  return concat("; the frame is made of ", inputs.size() == 1 ? "input " : "inputs ",
                join(given, ", "), " (", option, ")",
                random.empty() ? "" : concat(", random ", join(random, ", ")),
                text_of_bound(others.bound),
                others.bound.empty() ? "" : concat(" (", OptionName::kConstants, ")"),
                of_function ? "" : ": give sizes and values that the network takes");
}

std::vector<std::string> open_sizes(const std::vector<plan::TensorInfo>& inputs) {
  std::vector<std::string> sizes;
  for (const auto& input : inputs) {
    if (input.type.fixed()) continue;
    const auto size = [](const Dim& dim) { return std::to_string(dim.likely()); };
    sizes.push_back(concat(input.name, "=", join(input.type.dims, "x", size)));
  }
  return sizes;
}

}  // namespace penstock::frames
