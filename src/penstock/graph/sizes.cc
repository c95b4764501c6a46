// Takes what weights tell, and of usual sizes the first in which inference finds no new fault.
#include "penstock/graph/sizes.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <variant>
#include <vector>

#include "penstock/graph/inference.h"
#include "penstock/graph/weight_sizes.h"

namespace penstock::graph {
namespace {

constexpr std::int64_t kSizesOfPictures[] = {64, 32,  28,  224, 128, 256, 96,  112, 160, 192,
                                             48, 299, 300, 320, 384, 416, 512, 640, 16,  8};
constexpr std::int64_t kSizes[] = {1,   8,   16,  32,   64,   128,  256,   512,   10,    20,   40,
                                   50,  80,  100, 160,  200,  320,  400,   480,   640,   1000, 1024,
                                   768, 576, 512, 2048, 4096, 8000, 16000, 32000, 44100, 48000};

bool is_free(const Dim& dim) {
  return !dim.fixed() && dim.bound == Dim::kOpen;
}

/// The first of several dimensions.
bool is_batch(const Type& type, std::size_t axis) {
  return axis == 0 && type.dims.size() > 1;
}

/// How many dimensions nothing tells or bounds, but for that of batches.
std::size_t open_axes(const Type& type, const SizesOfSymbols& known) {
  std::size_t count = 0;
  for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
    const auto& dim = type.dims[axis];
    count += is_free(dim) && !is_batch(type, axis) && !known.contains(dim.symbol) ? 1 : 0;
  }
  return count;
}

/// Height and width are open. With one that is, it is rather a cache of keys: its length.
bool is_picture(const Type& type, const SizesOfSymbols& known) {
  return type.dims.size() >= 4 && open_axes(type, known) >= 2;
}

/// With a symbol for every open dimension of its inputs.
Graph named(const Graph& graph) {
  Graph all = graph;
  for (const auto id : graph.inputs) {
    auto& value = all.values[index(id)];
    for (std::size_t axis = 0; axis < value.type.dims.size(); ++axis) {
      auto& dim = value.type.dims[axis];
      if (is_free(dim) && dim.symbol.empty()) dim.symbol = concat(value.name, " axis ", axis);
    }
  }
  return all;
}

/// The elements of a shape; nothing where that is not known.
std::optional<std::int64_t> count_of(const Type& type) {
  std::int64_t count = 1;
  if (!type.ranked) return {};
  for (const auto& dim : type.dims) {
    if (!dim.fixed() || __builtin_mul_overflow(count, dim.size, &count)) return {};
  }
  return count;
}

/// The whole numbers of a constant input; none where that is none.
std::vector<std::int64_t> integers_in(const Graph& graph, const Node& node, std::size_t input) {
  if (node.inputs.size() <= input || node.inputs[input] == ValueId::kNone) return {};
  const auto& constant = graph.value(node.inputs[input]).constant;
  if (constant && constant->dtype() == DType::kI32) {
    const auto list = constant->as<std::int32_t>();
    return {list.begin(), list.end()};
  }
  if (!constant || constant->dtype() != DType::kI64) return {};
  const auto list = constant->as<std::int64_t>();
  return {list.begin(), list.end()};
}

/// Dimension 1 of a signal holds the window or, where there is none, a piece.
bool is_shorter_than_piece(const Graph& graph, const Node& node) {
  constexpr std::size_t kWindow = 2, kLength = 3;
  const auto& signal = graph.value(node.inputs.front()).type.dims;
  if (signal.size() < 2 || !signal[1].fixed()) return false;
  const bool has_window = node.inputs.size() > kWindow && node.inputs[kWindow] != ValueId::kNone;
  if (has_window) {
    const auto window = count_of(graph.value(node.inputs[kWindow]).type);
    return window && signal[1].size <= *window;
  }
  const auto length = integers_in(graph, node, kLength);
  return length.size() == 1 && signal[1].size < length.front();
}

/// Of a convolution or a pooling; empty where that is not known, or it has none.
std::vector<std::int64_t> kernel_of(const Graph& graph, const Node& node) {
  if (auto given = node.ints_or("kernel_shape", {}); !given.empty()) return given;
  if (!node.op.ends_with("Conv")) return {};
  const std::size_t weights = node.op == "QLinearConv" ? 3 : 1;
  if (node.inputs.size() <= weights || node.inputs[weights] == ValueId::kNone) return {};
  std::vector<std::int64_t> kernel;
  for (const auto& dim : graph.value(node.inputs[weights]).type.dims) {
    if (!dim.fixed()) return {};
    kernel.push_back(dim.size);
  }
  kernel.erase(kernel.begin(), kernel.begin() + std::min<std::ptrdiff_t>(2, std::ssize(kernel)));
  return kernel;
}

/// What is padded is shorter than the window, with the gaps in it. ONNX's inference divides by the
/// stride and cuts off, so that a window that is too long by less than one step makes 1 element.
bool is_shorter_than_kernel(const Graph& graph, const Node& node) {
  const auto kernel = kernel_of(graph, node);
  const auto& dims = graph.value(node.inputs.front()).type.dims;
  const auto rank = kernel.size();
  const auto* how = node.find("auto_pad");
  const auto* padding = how == nullptr ? nullptr : std::get_if<std::string>(&how->value);
  if (rank == 0 || dims.size() != rank + 2 || (padding && padding->starts_with("SAME"))) {
    return false;
  }
  auto pads = node.ints_or("pads", {});
  auto dilations = node.ints_or("dilations", {});
  if (pads.size() != 2 * rank || (padding && *padding == "VALID")) pads.assign(2 * rank, 0);
  if (dilations.size() != rank) dilations.assign(rank, 1);
  for (std::size_t i = 0; i < rank; ++i) {
    std::int64_t room = dims[i + 2].size, span = 0;
    const bool is_countable = dims[i + 2].fixed() && kernel[i] > 0 &&
                              !__builtin_add_overflow(room, pads[i], &room) &&
                              !__builtin_add_overflow(room, pads[rank + i], &room) &&
                              !__builtin_mul_overflow(dilations[i], kernel[i] - 1, &span);
    if (is_countable && room <= span) return true;
  }
  return false;
}

/// What is mirrored at its ends is longer than what is added there.
bool is_too_short_for_mirror(const Graph& graph, const Node& node) {
  const auto* mode = node.find("mode");
  const auto* name = mode == nullptr ? nullptr : std::get_if<std::string>(&mode->value);
  if (name == nullptr || *name != "reflect") return false;
  constexpr std::size_t kPads = 1, kAxes = 3;
  auto pads = integers_in(graph, node, kPads);
  if (pads.empty()) pads = node.ints_or("pads", {});
  const auto axes = integers_in(graph, node, kAxes);
  const auto& dims = graph.value(node.inputs.front()).type.dims;
  const auto rank = static_cast<std::int64_t>(dims.size());
  const auto count = static_cast<std::int64_t>(pads.size() / 2);
  for (std::int64_t i = 0; i < count; ++i) {
    auto axis = axes.empty() ? i : static_cast<std::size_t>(i) < axes.size() ? axes[i] : rank;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || !dims[axis].fixed()) continue;
    const auto added = std::max(pads[i], pads[i + count]);
    if (added > 0 && dims[axis].size <= added) return true;
  }
  return false;
}

/// What inference lets pass: a reshape to another count, a window larger than what it slides over,
/// a mirror of more than there is.
bool does_not_fit(const Graph& graph, const Node& node) {
  if (node.inputs.empty() || node.inputs.front() == ValueId::kNone || node.outputs.empty() ||
      node.outputs.front() == ValueId::kNone) {
    return false;
  }
  const auto read = count_of(graph.value(node.inputs.front()).type);
  const auto& made = graph.value(node.outputs.front()).type;
  if (node.op == "Reshape") return read && count_of(made) && *read != *count_of(made);
  if (node.op == "STFT") return read && is_shorter_than_piece(graph, node);
  if (node.op == "Pad") return is_too_short_for_mirror(graph, node);
  const bool slides = node.op.ends_with("Conv") || node.op.ends_with("Pool");
  if (!slides || !read) return false;
  return (made.ranked && !count_of(made)) || is_shorter_than_kernel(graph, node);
}

/// What is wrong with some sizes.
struct Faults {
  std::size_t refused = 0;  ///< Nodes that inference refuses.
  std::size_t misfits = 0;  ///< Those that it lets pass, and values that would be empty.
  [[nodiscard]] bool more_than(const Faults& other) const {
    return refused > other.refused || misfits > other.misfits;
  }
};

Faults faults_of(Graph& graph) {
  Faults faults;
  infer_types(graph, Source::kFile, &faults.refused);
  for (const auto& node : graph.nodes) faults.misfits += does_not_fit(graph, node) ? 1 : 0;
  for (const auto& value : graph.values) {
    const bool empty = std::ranges::any_of(
        value.type.dims, [](const Dim& dim) { return dim.fixed() && dim.size <= 0; });
    if (value.producer && empty) ++faults.misfits;
  }
  return faults;
}

/// Whether an axis that was open is 1 in one, where the other, a constant, has more: it would be
/// repeated, as one patch for all positions of a picture.
bool is_repeated(const Type& open, const Type& sized, const Type& constant) {
  const auto rank = sized.dims.size(), other = constant.dims.size();
  for (std::size_t i = 1; i <= std::min(rank, other); ++i) {
    const auto& dim = sized.dims[rank - i];
    const bool was_open = open.dims.size() == rank && !open.dims[rank - i].fixed();
    if (was_open && dim.fixed() && dim.size == 1 && constant.dims[other - i].size > 1) return true;
  }
  return false;
}

/// Whether a sum or a product with a constant does so. `open`: the same without sizes.
bool has_repeated(const Graph& open, const Graph& sized) {
  constexpr std::string_view kOps[] = {"Add", "Sub", "Mul", "Div"};
  return std::ranges::any_of(sized.nodes, [&](const Node& node) {
    if (std::ranges::count(kOps, node.op) == 0 || node.inputs.size() != 2) return false;
    const auto [a, b] = std::pair(node.inputs[0], node.inputs[1]);
    const auto repeats = [&](ValueId one, ValueId other) {
      return sized.value(other).constant &&
             is_repeated(open.value(one).type, sized.value(one).type, sized.value(other).type);
    };
    return repeats(a, b) || repeats(b, a);
  });
}

/// Of a symbol or a number.
std::optional<std::int64_t> size_of_word(std::string_view word, const SizesOfSymbols& known) {
  const auto first = word.find_first_not_of(' ');
  if (first == word.npos) return {};
  word = word.substr(first, word.find_last_not_of(' ') - first + 1);
  if (const auto found = known.find(word); found != known.end()) return found->second;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() ? std::optional(number)
                                                                  : std::nullopt;
}

/// Of "past + sequence" or "2*n", as exporters name what is computed of other dimensions. Nothing
/// where that is no size at all, or none for a try.
std::optional<std::int64_t> size_of_sum(std::string_view symbol, const SizesOfSymbols& known) {
  constexpr std::int64_t kLongest = 1 << 20;
  std::int64_t sum = 0, product = 1;
  for (;;) {
    const auto end = std::min(symbol.find_first_of("+*"), symbol.size());
    const auto size = size_of_word(symbol.substr(0, end), known);
    if (!size || *size < 1 || *size > kLongest / product) return {};
    product *= *size;
    const bool is_last = end == symbol.size();
    if (is_last || symbol[end] == '+') {
      sum += product;
      product = 1;
    }
    if (sum > kLongest) return {};
    if (is_last) return sum;
    symbol.remove_prefix(end + 1);
  }
}

bool is_sum(const Dim& dim) {
  return !dim.fixed() && dim.symbol.find_first_of("+*") != std::string::npos;
}

/// Of every input that gets sizes; each symbol has one.
class Sizing {
 public:
  Sizing(const Graph& graph, SizesOfSymbols known, std::int64_t size)
      : sized_(graph), by_symbol_(std::move(known)) {
    for (const bool sums : {false, true}) {
      for (const auto id : graph.inputs) choose(sized_.values[index(id)].type, size, sums);
    }
    for (auto& value : sized_.values) {
      for (auto& dim : value.type.dims) {
        const auto taken = dim.fixed() ? by_symbol_.end() : by_symbol_.find(dim.symbol);
        if (taken != by_symbol_.end()) dim = {taken->second, {}, Dim::kOpen};
      }
    }
    faults_ = faults_of(sized_);
  }

  [[nodiscard]] const Faults& faults() const { return faults_; }
  [[nodiscard]] const Graph& sized() const { return sized_; }
  /// Whether some dimension is another than the one that was tried.
  [[nodiscard]] bool has_sums() const { return has_sums_; }

  void note_in(Graph& graph) const {
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
      auto& dims = graph.values[i].type.dims;
      const auto& sizes = sized_.values[i].type.dims;
      if (dims.size() != sizes.size()) continue;
      for (std::size_t axis = 0; axis < dims.size(); ++axis) {
        if (is_free(dims[axis]) && sizes[axis].fixed()) dims[axis].usual = sizes[axis].size;
      }
    }
  }

 private:
  /// The sizes of an input's dimensions: of those that are computed of others, or of the others.
  void choose(Type& type, std::int64_t size, bool sums) {
    for (std::size_t axis = 0; axis < type.dims.size(); ++axis) {
      auto& dim = type.dims[axis];
      if (dim.fixed() || is_sum(dim) != sums) continue;
      auto taken = !is_free(dim) ? dim.bound : is_batch(type, axis) ? 1 : size;
      if (const auto sum = sums ? size_of_sum(dim.symbol, by_symbol_) : std::nullopt) {
        has_sums_ = true;
        taken = *sum;
      }
      if (!dim.symbol.empty()) by_symbol_.emplace(dim.symbol, taken);
      if (dim.symbol.empty()) dim = {taken, {}, Dim::kOpen};
    }
  }

  Graph sized_;
  SizesOfSymbols by_symbol_;
  bool has_sums_ = false;
  Faults faults_;
};

}  // namespace

void find_sizes(Graph& graph) {
  const auto is_any_free = [&](ValueId id) {
    return std::ranges::any_of(graph.value(id).type.dims, is_free);
  };
  if (std::ranges::none_of(graph.inputs, is_any_free)) return;
  Graph open = named(graph);
  const auto known = sizes_of_weights(open);
  bool any = false, pictures = false;
  for (const auto id : graph.inputs) {
    const auto& type = open.value(id).type;
    any = any || open_axes(type, known) > 0;
    pictures = pictures || is_picture(type, known);
  }
  if (!any && known.empty()) return;
  const auto& sizes = pictures ? std::span<const std::int64_t>(kSizesOfPictures) : kSizes;
  Graph tried = open;
  const auto already = faults_of(tried);  // Whatever the sizes.
  std::optional<Sizing> taken;
  std::int64_t taken_size = 0;
  for (const auto size : sizes) {
    Sizing sizing(open, known, size);
    if (sizing.faults().more_than(already)) continue;
    const bool repeated = has_repeated(tried, sizing.sized());
    if (repeated && taken) continue;
    taken = std::move(sizing);
    taken_size = size;
    if (!repeated) break;
  }
  if (taken) {
    if (taken_size != 1 || taken->has_sums() || !known.empty()) taken->note_in(graph);
    return;
  }
  if (!known.empty()) Sizing(open, known, 1).note_in(graph);
}

}  // namespace penstock::graph
