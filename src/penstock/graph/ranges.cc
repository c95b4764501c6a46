// A table of rules by operator, applied from the last node to the first, inside bodies too.
#include "penstock/graph/ranges.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <initializer_list>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>

#include "penstock/graph/bodies.h"
#include "penstock/graph/inference.h"
#include "penstock/tensor/number.h"

namespace penstock::graph {
namespace {

using Range = std::optional<WholeRange>;
/// Of each value, by ValueId.
using RangesOfValues = std::vector<Range>;

constexpr std::int64_t kFewSteps = 4;              ///< Of a loop whose count is open.
constexpr std::int64_t kShortLength = 8;           ///< Of what an input makes as long as it says.
constexpr double kBlocking = 1000;                 ///< Masks are multiplied by this or more.
constexpr std::size_t kMostConstants = 1U << 20U;  ///< Larger tables are no offsets of indices.
constexpr std::int64_t kFarthest = 1LL << 52U;     ///< Sums of two stay exact in a double.

Range between(double least, double most) {
  const double low = std::ceil(least), high = std::floor(most);
  if (!(low <= high) || std::abs(low) > kFarthest || std::abs(high) > kFarthest) return {};
  return WholeRange{static_cast<std::int64_t>(low), static_cast<std::int64_t>(high)};
}

/// The least and the largest element of a constant.
std::optional<std::pair<double, double>> extremes_of(const Value& value) {
  if (!value.constant || value.is_parameter) return {};
  const auto& tensor = *value.constant;
  const bool real = is_float(tensor.dtype()) || value.type.dtype == DType::kI64 ||
                    value.type.dtype == DType::kI32;
  if (tensor.kind() != Tensor::Kind::kDense || !real) return {};
  if (tensor.count() == 0 || tensor.count() > kMostConstants) return {};
  double least = std::numeric_limits<double>::infinity(), most = -least;
  for (std::size_t i = 0; i < tensor.count(); ++i) {
    const double number =
        number_from_bits(tensor.dtype(), load_bits(tensor.dtype(), tensor.data(), i));
    if (std::isnan(number)) return {};
    least = std::min(least, number);
    most = std::max(most, number);
  }
  return std::pair(least, most);
}

/// One node and what is asked of its outputs; collects what it asks of its inputs.
class RangeSite {
 public:
  RangeSite(const Graph& graph, const Node& node, RangesOfValues& ranges)
      : graph_(graph), node_(node), ranges_(ranges) {}

  [[nodiscard]] const Node& node() const { return node_; }
  [[nodiscard]] const Graph& graph() const { return graph_; }
  [[nodiscard]] bool has(std::size_t input) const {
    return input < node_.inputs.size() && node_.inputs[input] != ValueId::kNone;
  }
  [[nodiscard]] const Value& value(std::size_t input) const {
    return graph_.value(node_.inputs[input]);
  }
  [[nodiscard]] Range made(std::size_t output = 0) const {
    const bool there = output < node_.outputs.size() && node_.outputs[output] != ValueId::kNone;
    return there ? range_of(node_.outputs[output]) : Range();
  }
  [[nodiscard]] Range range_of(ValueId id) const { return ranges_[index(id)]; }
  void ask(std::size_t input, const Range& range) {
    if (has(input)) ask_value(node_.inputs[input], range);
  }
  void ask_value(ValueId id, const Range& range) {
    ranges_[index(id)] = meet(ranges_[index(id)], range);
  }

  [[nodiscard]] std::optional<std::size_t> rank(std::size_t input) const {
    if (!has(input) || !value(input).type.ranked) return {};
    return value(input).type.dims.size();
  }
  /// Elements along an axis in a random frame.
  [[nodiscard]] std::optional<std::int64_t> size(std::size_t input, std::int64_t axis) const {
    return has(input) ? size_of(value(input).type, axis) : std::nullopt;
  }
  [[nodiscard]] std::optional<std::pair<double, double>> extremes(std::size_t input) const {
    return has(input) ? extremes_of(value(input)) : std::nullopt;
  }
  /// How many elements an input has, where its shape is known.
  [[nodiscard]] std::optional<std::int64_t> count(std::size_t input) const {
    if (!rank(input)) return {};
    std::int64_t count = 1;
    for (const auto& dim : value(input).type.dims) {
      if (!dim.fixed()) return {};
      count *= dim.size;
    }
    return count;
  }

 private:
  static std::optional<std::size_t> axis_of(const Type& type, std::int64_t axis) {
    if (!type.ranked) return {};
    const auto rank = static_cast<std::int64_t>(type.dims.size());
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) return {};
    return static_cast<std::size_t>(axis);
  }
  static std::optional<std::int64_t> size_of(const Type& type, std::int64_t axis) {
    const auto place = axis_of(type, axis);
    if (!place) return {};
    return type.dims[*place].likely();
  }

  const Graph& graph_;
  const Node& node_;
  RangesOfValues& ranges_;
};

using RangeRule = std::function<void(RangeSite&)>;

/// Indices of so many places, counted from the front.
Range places(const std::optional<std::int64_t>& size) {
  return size && *size > 0 ? Range(WholeRange{0, *size - 1}) : Range();
}

// --- What only moves or shifts numbers ----------------------------------------------------------

RangeRule moves(std::initializer_list<std::size_t> inputs) {
  return [inputs = std::vector(inputs)](RangeSite& site) {
    for (const auto input : inputs) site.ask(input, site.made());
  };
}

void moves_all(RangeSite& site) {
  for (std::size_t i = 0; i < site.node().inputs.size(); ++i) site.ask(i, site.made());
}

void cast(RangeSite& site) {
  constexpr std::int64_t kOnnxBool = 9;
  site.ask(0, site.node().int_or("to", 0) == kOnnxBool ? WholeRange{0, 1} : site.made());
}

/// Whether an input is made of whole numbers alone by a Cast to floats, perhaps moved since.
bool is_cast_to_float(const RangeSite& site, std::size_t input) {
  constexpr std::string_view kMoves[] = {"Transpose", "Reshape", "Unsqueeze", "Squeeze",
                                         "Identity"};
  const auto& graph = site.graph();
  const auto* value = site.has(input) ? &site.value(input) : nullptr;
  while (value != nullptr && value->producer) {
    const auto& node = graph.node(*value->producer);
    const bool casts = node.op == "Cast";
    const auto from = node.inputs.empty() ? ValueId::kNone : node.inputs.front();
    if (from == ValueId::kNone) return false;
    if (casts) return is_float(value->type.dtype) && is_wide_integer(graph.value(from).type.dtype);
    if (std::ranges::find(kMoves, node.op) == std::ranges::end(kMoves)) return false;
    value = &graph.value(from);
  }
  return false;
}

/// Whole numbers that become floats and are then scaled as pixels are (x / 255, (x - 127.5) / 58,
/// x - the means of colours) are pixels.
void asks_for_pixels(RangeSite& site, std::size_t input, double least, double most) {
  const auto by = site.extremes(1 - input);
  if (!by || by->first < least || by->second > most || !is_cast_to_float(site, input)) return;
  site.ask(input, WholeRange{0, 255});
}

void adds(RangeSite& site) {
  for (const std::size_t input : {0U, 1U}) asks_for_pixels(site, input, -130, -90);
  const auto made = site.made();
  for (const std::size_t input : {0U, 1U}) {
    const auto other = site.extremes(1 - input);
    if (made && other) {
      site.ask(input, between(static_cast<double>(made->least) - other->first,
                              static_cast<double>(made->most) - other->second));
    }
  }
}

void subtracts(RangeSite& site) {
  asks_for_pixels(site, 0, 90, 130);
  const auto made = site.made();
  if (!made) return;
  const auto least = static_cast<double>(made->least), most = static_cast<double>(made->most);
  if (const auto right = site.extremes(1)) {
    site.ask(0, between(least + right->second, most + right->first));
  }
  if (const auto left = site.extremes(0)) {
    site.ask(1, between(left->second - most, left->first - least));
  }
}

/// Whether a value is what blocks where a mask is 0: `1 - mask`, `mask - 1` or `mask + -1`.
bool is_mask_less_one(const RangeSite& site, const Value& value, bool negated) {
  if (!value.producer) return false;
  const auto& graph = site.graph();
  const auto& node = graph.node(*value.producer);
  const auto is = [&](std::size_t input, double number) {
    if (input >= node.inputs.size() || node.inputs[input] == ValueId::kNone) return false;
    const auto found = extremes_of(graph.value(node.inputs[input]));
    return found && found->first == number && found->second == number;
  };
  if (negated) return node.op == "Sub" && is(0, 1);
  return (node.op == "Sub" && is(1, 1)) || (node.op == "Add" && (is(0, -1) || is(1, -1)));
}

void multiplies(RangeSite& site) {
  for (const std::size_t input : {0U, 1U}) asks_for_pixels(site, input, 1.0 / 256, 1.0 / 127);

  for (const std::size_t input : {0U, 1U}) {
    const auto factor = site.extremes(1 - input);
    if (!factor || !site.has(input)) continue;
    if (factor->second <= -kBlocking && is_mask_less_one(site, site.value(input), true)) {
      site.ask(input, WholeRange{0, 1});
    } else if (factor->first >= kBlocking && is_mask_less_one(site, site.value(input), false)) {
      site.ask(input, WholeRange{-1, 0});
    }
    const auto made = site.made();
    if (!made || factor->first <= 0) continue;
    const auto least = static_cast<double>(made->least), most = static_cast<double>(made->most);
    site.ask(input, between(least / (least <= 0 ? factor->second : factor->first),
                            most / (most >= 0 ? factor->second : factor->first)));
  }
}

/// Whole numbers are divided by none that is 0.
void has_divisor(RangeSite& site) {
  if (!site.has(1)) return;
  const auto& type = site.value(1).type;
  const bool whole =
      type.kind == Type::Kind::kTensor && type.dtype != DType::kUndefined && !is_float(type.dtype);
  if (whole) site.ask(1, WholeRange{1, kShortLength});
}

void divides(RangeSite& site) {
  asks_for_pixels(site, 0, 127, 256);
  has_divisor(site);
  const auto made = site.made();
  const auto by = site.extremes(1);
  if (!made || !by || by->first <= 0) return;
  const auto least = static_cast<double>(made->least), most = static_cast<double>(made->most);
  site.ask(0, between(least * (least <= 0 ? by->first : by->second),
                      most * (most >= 0 ? by->first : by->second)));
}

void negates(RangeSite& site) {
  if (const auto made = site.made()) site.ask(0, WholeRange{-made->most, -made->least});
}

// --- Indices ------------------------------------------------------------------------------------

void gathers(RangeSite& site) {
  site.ask(0, site.made());
  site.ask(1, places(site.size(0, site.node().int_or("axis", 0))));
}

void scatters(RangeSite& site) {
  gathers(site);
  site.ask(2, site.made());
}

/// Along each of the axes that a row of indices names.
void ask_places_of_rows(RangeSite& site, std::int64_t first) {
  const auto rank = site.rank(0), rank_of_indices = site.rank(1);
  if (!rank || !rank_of_indices || *rank_of_indices == 0) return;
  const auto& row = site.value(1).type.dims.back();
  const auto all = static_cast<std::int64_t>(*rank);
  const auto last = row.fixed() ? std::min(first + row.size, all) : all;
  for (auto axis = first; axis < last; ++axis) site.ask(1, places(site.size(0, axis)));
}

void gathers_rows(RangeSite& site) {
  site.ask(0, site.made());
  ask_places_of_rows(site, site.node().int_or("batch_dims", 0));
}

void scatters_rows(RangeSite& site) {
  site.ask(0, site.made());
  site.ask(2, site.made());
  ask_places_of_rows(site, 0);
}

void reads_one_hot(RangeSite& site) {
  if (const auto depth = site.extremes(1)) site.ask(0, between(0, depth->first - 1));
  site.ask(1, WholeRange{1, kShortLength});
}

/// Words, segments and the tables of both.
void embeds(RangeSite& site) {
  site.ask(0, places(site.size(2, 0)));
  site.ask(1, places(site.size(4, 0)));
}

/// Each box is of one of the pictures, and inside it.
void aligns_boxes(RangeSite& site) {
  site.ask(2, places(site.size(0, 0)));
  const auto height = site.size(0, 2), width = site.size(0, 3);
  if (!height || !width) return;
  const auto& node = site.node();
  const auto* attribute = node.find("spatial_scale");
  const auto* given = attribute != nullptr ? std::get_if<float>(&attribute->value) : nullptr;
  const double scale = given != nullptr ? *given : 1;
  double most = static_cast<double>(std::min(*height, *width) - 1) / scale;
  if (node.int_or("sampling_ratio", 0) == 0) {
    // Engines overflow on a box that ends a bin or more before it begins.
    const auto bins = std::min(node.int_or("output_height", 1), node.int_or("output_width", 1));
    most = std::min(most, std::ceil(static_cast<double>(bins) / scale) - 1);
  }
  if (scale > 0 && most >= 1) site.ask(1, between(0, most));
}

/// Places in the table of cosines.
RangeRule rotates(std::size_t positions, std::size_t cosines) {
  return [=](RangeSite& site) { site.ask(positions, places(site.size(cosines, 0))); };
}

/// Where the keys end, of the past and of the frame, without and with the last.
void attends_in_groups(RangeSite& site) {
  const auto made = site.size(0, 1), past = site.size(3, 2);
  if (!made || !past || *made + *past < 1) return;
  const auto all = *made + *past;
  site.ask(5, WholeRange{all - 1, all - 1});
  site.ask(6, WholeRange{all, all});
}

/// An input that names one axis of the data.
void ask_axis(RangeSite& site, std::size_t input) {
  const auto rank = site.rank(0);
  if (rank && site.count(input) == 1) site.ask(input, places(static_cast<std::int64_t>(*rank)));
}

void axis_of_data(RangeSite& site) {
  ask_axis(site, 1);
}

/// The first axis of one element is what goes.
void squeezes(RangeSite& site) {
  site.ask(0, site.made());
  const auto rank = static_cast<std::int64_t>(site.rank(0).value_or(0));
  if (site.count(1) != 1) return;
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    if (site.size(0, axis) == 1) return site.ask(1, WholeRange{axis, axis});
  }
}

/// Of columns of a table, or of classes along an axis.
RangeRule picks(std::int64_t axis) {
  return [=](RangeSite& site) { site.ask(1, places(site.size(0, axis))); };
}

/// Where the part that is written begins.
void writes_part(RangeSite& site) {
  const auto axis = site.node().int_or("axis", -2);
  const auto all = site.size(0, axis), part = site.size(1, axis);
  site.ask(0, site.made());
  site.ask(1, site.made());
  if (all && part) site.ask(2, places(*all - *part + 1));
}

// --- Lengths ------------------------------------------------------------------------------------

RangeRule lengths(std::size_t input, WholeRange range) {
  return [=](RangeSite& site) { site.ask(input, range); };
}

void ranges(RangeSite& site) {
  site.ask(0, WholeRange{0, 0});
  site.ask(1, WholeRange{1, kShortLength});
  site.ask(2, WholeRange{1, 1});
}

/// So many, or as many as there are.
Range up_to(std::optional<std::int64_t> size, std::int64_t most = kShortLength) {
  if (size && *size < 1) return {};
  return WholeRange{1, std::min(size.value_or(most), most)};
}

/// Of a signal in pieces: one begins at each step, and is as long as the window, where there is
/// one. A length of 0 would be divided by.
void transforms_pieces(RangeSite& site) {
  constexpr std::size_t kStep = 1, kWindow = 2, kLength = 3;
  const auto signal = site.size(0, 1), window = site.count(kWindow);
  site.ask(kStep, up_to(signal));
  const bool is_known = window && *window > 0;
  site.ask(kLength, is_known ? WholeRange{*window, *window} : up_to(signal));
}

/// The last axis has the real and the imaginary part.
void transforms(RangeSite& site) {
  constexpr std::size_t kLength = 1, kAxis = 2;
  site.ask(kLength, WholeRange{1, kShortLength});
  if (const auto rank = site.rank(0)) site.ask(kAxis, places(static_cast<std::int64_t>(*rank) - 1));
}

/// Bands end below half the rate, and an even length has a place for that half.
void weighs_bands(RangeSite& site) {
  constexpr std::size_t kBands = 0, kLength = 1, kRate = 2, kLow = 3, kHigh = 4;
  constexpr double kUsualRate = 16000;
  const auto rate = site.extremes(kRate), low = site.extremes(kLow), high = site.extremes(kHigh);
  site.ask(kBands, WholeRange{1, kShortLength});
  site.ask(kLength, WholeRange{kShortLength, kShortLength});
  const auto likely = rate ? rate->first : high ? 2 * std::ceil(high->second) : kUsualRate;
  site.ask(kRate, between(likely, likely));
  site.ask(kLow, WholeRange{0, 0});
  site.ask(kHigh, between(std::floor(low ? low->second : 0) + 1, likely / 2));
}

/// Into parts of one size.
Range equal_parts(std::optional<std::int64_t> size, std::optional<std::int64_t> count) {
  if (!size || !count || *count < 1 || *size % *count != 0) return {};
  return WholeRange{*size / *count, *size / *count};
}

void splits(RangeSite& site) {
  for (std::size_t i = 0; i < site.node().outputs.size(); ++i) site.ask(0, site.made(i));
  site.ask(1, equal_parts(site.size(0, site.node().int_or("axis", 0)), site.count(1)));
}

/// A number alone is the size of each part but the last.
void splits_to_sequence(RangeSite& site) {
  const auto size = site.size(0, site.node().int_or("axis", 0));
  site.ask(1, site.rank(1) == 0U ? up_to(size) : equal_parts(size, site.count(1)));
}

void pads(RangeSite& site) {
  constexpr std::size_t kAxes = 3;
  site.ask(0, site.made());
  ask_axis(site, kAxes);
}

/// As many pictures as there are matrices; its other sizes may be the same.
void makes_grids(RangeSite& site) {
  const auto pictures = site.size(0, 0);
  if (pictures && *pictures > 0) site.ask(1, WholeRange{*pictures, *pictures});
}

/// The keys that are none of a longer frame.
void attends(RangeSite& site) {
  constexpr std::size_t kLengths = 6;
  const auto keys = site.size(1, -2);
  if (keys && *keys > 0) site.ask(kLengths, WholeRange{1, *keys});
}

void slices(RangeSite& site) {
  site.ask(0, site.made());
  site.ask(1, WholeRange{0, 0});
  site.ask(4, WholeRange{1, 1});
  const auto rank = site.rank(0);
  if (!rank) return;
  std::int64_t shortest = kShortLength;
  for (std::size_t axis = 0; axis < *rank; ++axis) {
    const auto size = site.size(0, static_cast<std::int64_t>(axis));
    if (size) shortest = std::min(shortest, *size);
  }
  const bool single = site.has(3) && site.count(3) == 1;
  const auto axis = site.extremes(3);
  if (single && axis) {
    shortest = site.size(0, static_cast<std::int64_t>(axis->first)).value_or(shortest);
  }
  if (shortest > 0) site.ask(2, WholeRange{1, shortest});
  if (single) site.ask(3, places(static_cast<std::int64_t>(*rank)));
}

void expands(RangeSite& site) {
  site.ask(0, site.made());
  site.ask(1, WholeRange{1, 1});
}

/// One size is what is left; as many as the data has are its own.
void reshapes(RangeSite& site) {
  site.ask(0, site.made());
  const auto count = site.count(1);
  const auto rank = site.rank(0);
  if (count == 1) {
    site.ask(1, WholeRange{-1, -1});
  } else if (count && rank && static_cast<std::int64_t>(*rank) == *count &&
             site.node().int_or("allowzero", 0) == 0) {
    site.ask(1, WholeRange{0, 0});
  }
}

void takes_top(RangeSite& site) {
  site.ask(0, site.made());
  const auto size = site.size(0, site.node().int_or("axis", -1));
  if (size && *size > 0) site.ask(1, WholeRange{1, *size});
}

void recurs(RangeSite& site) {
  const auto time = site.size(0, site.node().int_or("layout", 0) == 0 ? 0 : 1);
  if (time && *time > 0) site.ask(4, WholeRange{1, *time});
}

void reverses(RangeSite& site) {
  site.ask(0, site.made());
  const auto time = site.size(0, site.node().int_or("time_axis", 0));
  if (time && *time > 0) site.ask(1, WholeRange{1, *time});
}

void suppresses(RangeSite& site) {
  site.ask(2, WholeRange{1, kShortLength});
  site.ask(3, WholeRange{0, 1});
}

/// Whether a Concat makes it, as far as can be seen through what changes no number.
bool is_joined(const Graph& graph, ValueId id) {
  for (auto producer = graph.value(id).producer; producer;) {
    const auto& node = graph.node(*producer);
    if (node.op == "Concat") return true;
    if ((node.op != "Cast" && node.op != "Identity") || node.inputs.empty()) return false;
    producer = graph.value(node.inputs.front()).producer;
  }
  return false;
}

void scales(RangeSite& site) {
  site.ask(site.node().op == "Upsample" ? 1 : 2, WholeRange{1, 1});
  // Sizes. But for nearest neighbours some axes stay as they are, and their sizes must be the
  // input's: no one range says so where a whole shape comes in, but of axes that are named, or of
  // a part that is joined to the sizes that stay, it does.
  const auto* mode = site.node().find("mode");
  const auto* named = mode == nullptr ? nullptr : std::get_if<std::string>(&mode->value);
  const bool any_axis = named == nullptr || *named == "nearest" || site.node().find("axes");
  if (any_axis || (site.has(3) && is_joined(site.graph(), site.node().inputs[3]))) {
    site.ask(3, WholeRange{1, kShortLength});
  }
}

void squeezes_in(RangeSite& site) {
  site.ask(0, site.made());
  if (site.count(1) == 1) site.ask(1, WholeRange{0, 0});
}

// --- Nested graphs ------------------------------------------------------------------------------

RangesOfValues ranges_within(const Graph& graph, RangesOfValues ranges);

void ask_of_bodies(RangeSite& site) {
  if (site.node().op == "Loop") site.ask(0, WholeRange{1, kFewSteps});
  for (const auto& body : bodies_of(site.graph(), site.node())) {
    RangesOfValues ranges(body.graph.values.size());
    for (const auto& [outer, inner] : body.made) {
      ranges[index(inner)] = meet(ranges[index(inner)], site.range_of(outer));
    }
    ranges = ranges_within(body.graph, std::move(ranges));
    for (const auto& [outer, inner] : body.read) site.ask_value(outer, ranges[index(inner)]);
  }
}

// --- The table ----------------------------------------------------------------------------------

const std::unordered_map<std::string, RangeRule>& rules() {
  static const std::unordered_map<std::string, RangeRule> kRules = [] {
    std::unordered_map<std::string, RangeRule> table;
    for (const char* op :
         {"Identity", "Flatten", "Transpose", "Dropout", "Floor", "Ceil", "Round", "Compress",
          "Clip", "Trilu", "Unique", "CastLike", "DepthToSpace", "SpaceToDepth"}) {
      table[op] = moves({0});
    }
    for (const char* op : {"Concat", "Min", "Max"}) table[op] = moves_all;
    for (const char* op :
         {"ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
          "ReduceLogSumExp", "ReduceSumSquare", "CumSum", "CumProd"}) {
      table[op] = axis_of_data;
    }
    for (const char* op : {"ReduceMax", "ReduceMin"}) {
      table[op] = [](RangeSite& site) {
        site.ask(0, site.made());
        axis_of_data(site);
      };
    }
    for (const char* op : {"LSTM", "GRU", "RNN"}) table[op] = recurs;
    for (const char* op : {"Gather", "GatherElements"}) table[op] = gathers;
    for (const char* op : {"Scatter", "ScatterElements"}) table[op] = scatters;
    for (const char* op : {"Resize", "Upsample"}) table[op] = scales;
    for (const char* op : {"If", "Loop", "Scan"}) table[op] = ask_of_bodies;
    for (const char* op : {"HannWindow", "HammingWindow", "BlackmanWindow"}) {
      table[op] = lengths(0, {1, kShortLength});
    }
    for (const char* op : {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"}) {
      table[op] = picks(1);
    }
    table["Where"] = moves({1, 2});
    table["Split"] = splits;
    table["SplitToSequence"] = splits_to_sequence;
    table["Squeeze"] = squeezes;
    table["Pad"] = pads;
    table["Cast"] = cast;
    table["Add"] = adds;
    table["Sub"] = subtracts;
    table["Mul"] = multiplies;
    table["Div"] = divides;
    table["Mod"] = has_divisor;
    table["Neg"] = negates;
    table["GatherND"] = gathers_rows;
    table["ScatterND"] = scatters_rows;
    table["OneHot"] = reads_one_hot;
    table["Range"] = ranges;
    table["Slice"] = slices;
    table["Tile"] = expands;
    table["Expand"] = expands;
    table["Reshape"] = reshapes;
    table["Unsqueeze"] = squeezes_in;
    table["ConstantOfShape"] = lengths(0, {1, 1});
    table["SequenceAt"] = lengths(1, {0, 0});
    table["SequenceErase"] = lengths(1, {0, 0});
    table["SequenceInsert"] = lengths(2, {0, 0});
    table["STFT"] = transforms_pieces;
    table["DFT"] = transforms;
    table["MelWeightMatrix"] = weighs_bands;
    table["AffineGrid"] = makes_grids;
    table["Attention"] = attends;
    table["TensorScatter"] = writes_part;
    table["MaxRoiPool"] = picks(0);
    table["ai.onnx.ml.ArrayFeatureExtractor"] = picks(-1);
    table["TopK"] = takes_top;
    table["ReverseSequence"] = reverses;
    table["NonMaxSuppression"] = suppresses;
    table["RoiAlign"] = aligns_boxes;
    table["RotaryEmbedding"] = rotates(3, 1);
    table["com.microsoft.RotaryEmbedding"] = rotates(1, 2);
    table["com.microsoft.GroupQueryAttention"] = attends_in_groups;
    table["com.microsoft.EmbedLayerNormalization"] = embeds;
    return table;
  }();
  return kRules;
}

/// What each value may hold where `ranges` is known of some.
RangesOfValues ranges_within(const Graph& graph, RangesOfValues ranges) {
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const auto rule = rules().find(node->domain.empty() ? node->op : node->domain + "." + node->op);
    if (rule == rules().end()) continue;
    RangeSite site(graph, *node, ranges);
    rule->second(site);
  }
  return ranges;
}

/// The whole numbers that the dtype holds exactly, or none where it holds no numbers.
Range exact_in(DType dtype) {
  const auto end = [](std::int64_t bits) { return WholeRange{-(1LL << bits), 1LL << bits}; };
  switch (dtype) {
    case DType::kF16:
      return end(11);
    case DType::kBF16:
      return end(8);
    case DType::kF32:
      return end(24);
    case DType::kF64:
    case DType::kI64:
      return end(52);
    case DType::kU64:
      return WholeRange{0, 1LL << 52U};
    case DType::kI32:
      return WholeRange{INT32_MIN, INT32_MAX};
    case DType::kU32:
      return WholeRange{0, UINT32_MAX};
    case DType::kI16:
      return WholeRange{INT16_MIN, INT16_MAX};
    case DType::kU16:
      return WholeRange{0, UINT16_MAX};
    case DType::kI8:
      return WholeRange{INT8_MIN, INT8_MAX};
    case DType::kU8:
      return WholeRange{0, UINT8_MAX};
    default:
      return {};
  }
}

}  // namespace

void find_ranges(Graph& graph) {
  const auto found = ranges_within(graph, RangesOfValues(graph.values.size()));
  for (const auto id : graph.inputs) {
    auto& value = graph.values[index(id)];
    const auto exact = exact_in(value.type.dtype);
    const auto& range = found[index(id)];
    if (!exact || !range || range->most < exact->least || range->least > exact->most) continue;
    value.range = meet(range, exact);
  }
}

}  // namespace penstock::graph
