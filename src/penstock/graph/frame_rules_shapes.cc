// The same numbers in another shape, and shapes given by constants.
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "penstock/graph/frame_rules.h"

namespace penstock::graph {
namespace {

/// Where the frames are after a reshape: behind as many numbers as before. Where several axes of
/// one element leave a choice: the same axis if all up to it is as it was, else the first.
int landing(const Sizes& from, int axis, const Sizes& to) {
  const auto before = at(axis) + 1;
  if (to.size() >= before && std::equal(from.begin(), from.begin() + axis + 1, to.begin())) {
    return axis;
  }
  if (std::any_of(from.begin(), from.begin() + axis, is_open)) return kSameForAll;
  const auto outer = product_of(from, 0, at(axis));
  for (std::size_t k = 0; k < to.size() && (k == 0 || !is_open(to[k - 1])); ++k) {
    if (product_of(to, 0, k) == outer) return static_cast<int>(k);
  }
  return kSameForAll;
}

std::ptrdiff_t open_in(const Sizes& sizes) {
  return std::ranges::count_if(sizes, is_open);
}

Status land(FrameSite& site, Sizes& shape, int& axis) {
  if (shape.empty()) return site.refuse("its output is one number, without a dimension of frames");
  axis = landing(site.sizes(0), site.axis(0), shape);
  if (axis == kSameForAll) {
    site.place(0, 0);
    axis = 0;
  }
  if (!is_open(shape[at(axis)])) shape[at(axis)] *= site.frames();
  return {};
}

/// A shape that says -1 or 0 says so of what is open. What it copies of the frames' axis would be
/// that of all frames elsewhere.
Status reshape_constant(FrameSite& site, Sizes given, const Sizes& shape, int axis) {
  const bool copies = site.node().int_or("allowzero", 0) == 0;
  for (std::size_t k = 0; k < shape.size(); ++k) {
    const bool frames_there = std::cmp_equal(k, site.axis(0)),
               frames_here = std::cmp_equal(k, axis);
    const bool stays = given[k] == -1 || (given[k] == 0 && copies && frames_there == frames_here);
    if (!stays && is_open(shape[k])) return site.refuse("the size of its axis ", k, " is open");
    if (!stays || open_in(shape) == 0) given[k] = shape[k];
  }
  site.put(1, given);
  return {};
}

Status reshape(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto given = site.integers(1);
  auto shape = site.made();
  int axis = kSameForAll;
  PENSTOCK_CHECK_OK(land(site, shape, axis));
  if (given) {
    PENSTOCK_CHECK_OK(reshape_constant(site, *given, shape, axis));
  } else {
    if (axis != site.axis(0)) site.place(0, axis = 0);  // It may copy the size of the frames' axis.
    PENSTOCK_CHECK_OK(site.multiply(1, at(axis)));
  }
  site.give(0, axis);
  return {};
}

/// What its own rule would make of several frames must be where the frames land.
Status flatten(FrameSite& site) {
  const auto from = site.sizes(0);
  const auto axis = wrapped(site.node().int_or("axis", 1), from.size());
  const auto outer = site.axis(0) < axis ? product_of(from, 0, at(site.axis(0)))
                                         : product_of(from, at(axis), at(site.axis(0)));
  if (outer != 1) site.place(0, 0);
  site.give(0, site.axis(0) < axis ? 0 : 1);
  return {};
}

Status squeeze(FrameSite& site) {
  PENSTOCK_TRY(const auto axes, list_of(site, "axes", 1));
  const auto from = site.sizes(0);
  std::vector<int> gone;
  for (std::size_t k = 0; k < from.size() && !axes; ++k) {
    if (from[k] == 1) gone.push_back(static_cast<int>(k));
  }
  if (axes) {
    for (const auto axis : *axes) gone.push_back(wrapped(axis, from.size()));
  }
  const bool frames_stay = std::ranges::find(gone, site.axis(0)) == gone.end();
  if (axes && frames_stay) {
    site.give(0, without(site.axis(0), gone));
    return {};
  }
  auto shape = site.made();
  int axis = kSameForAll;
  PENSTOCK_CHECK_OK(land(site, shape, axis));
  FrameGraph::Asked asked{.same = {}, .left = axis};
  for (int k = 0; std::cmp_less(k, from.size()); ++k) {
    if (std::ranges::count(gone, k) == 0) asked.same.push_back(k);
  }
  if (asked.same.size() != shape.size()) {
    return site.refuse("nothing tells which dimensions it leaves");
  }
  if (asked.same[at(axis)] != site.axis(0)) asked.times = site.frames();
  site.become_reshape(shape, asked);
  site.give(0, axis);
  return {};
}

Status unsqueeze(FrameSite& site) {
  PENSTOCK_TRY(const auto axes, list_of(site, "axes", 1));
  if (!axes) return site.refuse("its axes are missing");
  const auto rank = site.made().size();
  std::vector<bool> fresh(rank, false);
  for (const auto axis : *axes) fresh[at(wrapped(axis, rank))] = true;
  int left = site.axis(0);
  for (std::size_t k = 0; k < rank; ++k) {
    if (fresh[k]) continue;
    if (left-- == 0) site.give(0, static_cast<int>(k));
  }
  return {};
}

Status transpose(FrameSite& site) {
  const auto rank = static_cast<int>(site.sizes(0).size());
  Sizes order;
  for (int k = rank; k-- > 0;) order.push_back(k);
  order = site.node().ints_or("perm", order);
  const auto found = std::ranges::find(order, static_cast<std::int64_t>(site.axis(0)));
  site.give(0, static_cast<int>(found - order.begin()));
  return {};
}

Status expand(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  auto shape = site.integers(1);
  const auto from = site.sizes(0), to = site.made();
  const auto of_shape = shape ? static_cast<std::int64_t>(shape->size()) : site.sizes(1).front();
  if (is_open(of_shape)) return site.refuse("its shape is no constant");
  const auto shift = to.size() - from.size();
  std::vector<int> repeated;
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (from[k] != to[k + shift]) repeated.push_back(static_cast<int>(k));
  }
  PENSTOCK_CHECK_OK(keep_off(site, repeated));
  const int axis = site.axis(0) + static_cast<int>(shift);
  const int place = axis - static_cast<int>(to.size()) + static_cast<int>(of_shape);
  if (place >= 0 && shape && (*shape)[at(place)] != 1) {
    (*shape)[at(place)] = is_open(to[at(axis)]) ? 1 : to[at(axis)] * site.frames();
    site.put(1, *shape);
  } else if (place >= 0 && !shape) {
    PENSTOCK_CHECK_OK(site.limit_to_one(1, at(place)));
  }
  site.give(0, axis);
  return {};
}

Status tile(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto repeats = site.integers(1);
  if (!repeats || repeats->size() != site.sizes(0).size()) {
    return site.refuse("its repeats are no constant");
  }
  std::vector<int> repeated;
  for (std::size_t k = 0; k < repeats->size(); ++k) {
    if ((*repeats)[k] != 1) repeated.push_back(static_cast<int>(k));
  }
  PENSTOCK_CHECK_OK(keep_off(site, repeated));
  site.give(0, site.axis(0));
  return {};
}

/// The operands at every `step`-th input from `first` on hold the frames along one axis.
Status concatenate(FrameSite& site, std::size_t first, std::size_t step) {
  const auto joined = wrapped(site.node().int_or("axis", 1), site.made().size());
  int axis = kSameForAll;
  for (std::size_t i = first; i < site.inputs(); i += step) {
    PENSTOCK_CHECK_OK(keep_off(site, {joined}, i));
    if (axis == kSameForAll) axis = site.axis(i);
  }
  for (std::size_t i = first; i < site.inputs(); i += step) {
    if (site.axis(i) == kSameForAll) {
      PENSTOCK_CHECK_OK(site.repeat(i, axis));
    } else {
      site.place(i, axis);
    }
  }
  site.give(0, axis);
  return {};
}

Status concatenate_all(FrameSite& site) {
  return concatenate(site, 0, 1);
}

/// The scales and zero points stand behind the inputs.
Status concatenate_quantised(FrameSite& site) {
  for (std::size_t i = 0; i < site.inputs(); ++i) {
    const bool operand = i >= 2 && (i - 2) % 3 == 0;
    if (operand || site.axis(i) == kSameForAll) continue;
    return site.refuse("'", site.name(i), "' differs from frame to frame");
  }
  return concatenate(site, 2, 3);
}

Status split(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto axis = wrapped(site.node().int_or("axis", 0), site.sizes(0).size());
  PENSTOCK_CHECK_OK(keep_off(site, {axis}));
  site.give_all(site.axis(0));
  return {};
}

struct SliceBounds {
  Sizes starts, ends, axes, steps;

  /// Whether it takes all that there is along its axis number `k`.
  [[nodiscard]] bool takes_all(std::size_t k, std::int64_t size) const {
    const bool to_end =
        ends[k] >= (is_open(size) ? std::numeric_limits<std::int32_t>::max() : size);
    return (starts[k] == 0 || (!is_open(size) && starts[k] <= -size)) && to_end && steps[k] == 1;
  }
};

Result<SliceBounds> bounds_of(const FrameSite& site) {
  PENSTOCK_TRY(const auto starts, list_of(site, "starts", 1));
  PENSTOCK_TRY(const auto ends, list_of(site, "ends", 2));
  PENSTOCK_TRY(const auto axes, list_of(site, "axes", 3));
  PENSTOCK_TRY(const auto steps, list_of(site, "steps", 4));
  if (!starts || !ends) return site.refuse("its bounds are no constants");
  SliceBounds bounds{*starts, *ends, axes.value_or(Sizes(starts->size())),
                     steps.value_or(Sizes(starts->size(), 1))};
  if (!axes) std::iota(bounds.axes.begin(), bounds.axes.end(), std::int64_t{0});
  return bounds;
}

/// Bounds that are computed may be any, off the frames' axis.
bool cuts_elsewhere(const FrameSite& site) {
  const auto axes = site.integers(3);
  if (!axes || (site.integers(1) && site.integers(2))) return false;
  return std::ranges::none_of(*axes, [&](std::int64_t axis) {
    return wrapped(axis, site.sizes(0).size()) == site.axis(0);
  });
}

/// All that there is of one frame becomes all that there is of several.
Status slice_rule(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto sizes = site.sizes(0);
  if (cuts_elsewhere(site)) {
    site.give(0, site.axis(0));
    return {};
  }
  PENSTOCK_TRY(auto bounds, bounds_of(site));
  std::vector<int> cut;
  for (std::size_t k = 0; k < bounds.axes.size(); ++k) {
    const int axis = wrapped(bounds.axes[k], sizes.size());
    if (!bounds.takes_all(k, sizes[at(axis)])) cut.push_back(axis);
  }
  PENSTOCK_CHECK_OK(keep_off(site, cut));
  for (std::size_t k = 0; k < bounds.axes.size(); ++k) {
    if (wrapped(bounds.axes[k], sizes.size()) != site.axis(0)) continue;
    if (!site.has_input(2)) return site.refuse("its bounds are of an old operator set");
    bounds.starts[k] = 0;
    bounds.ends[k] = std::numeric_limits<std::int32_t>::max();
    site.put(1, bounds.starts);
    site.put(2, bounds.ends);
  }
  site.give(0, site.axis(0));
  return {};
}

Status pad(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  PENSTOCK_TRY(const auto pads, list_of(site, "pads", 1));
  PENSTOCK_TRY(const auto axes, list_of(site, "axes", 3));
  if (!pads) return site.refuse("its pads are no constant");
  const auto rank = site.sizes(0).size();
  const auto count = pads->size() / 2;
  std::vector<int> padded;
  for (std::size_t k = 0; k < count; ++k) {
    if ((*pads)[k] == 0 && (*pads)[k + count] == 0) continue;
    padded.push_back(axes ? wrapped((*axes)[k], rank) : static_cast<int>(k));
  }
  PENSTOCK_CHECK_OK(keep_off(site, padded));
  site.give(0, site.axis(0));
  return {};
}

Status resize_sizes(FrameSite& site, const std::optional<Sizes>& axes) {
  auto sizes = site.integers(3);
  const auto count = axes ? axes->size() : site.made().size();
  for (std::size_t k = 0; k < count; ++k) {
    const int axis = axes ? wrapped((*axes)[k], site.made().size()) : static_cast<int>(k);
    if (axis != site.axis(0)) continue;
    if (!sizes) return site.multiply(3, k);
    (*sizes)[k] *= site.frames();
  }
  if (sizes) site.put(3, *sizes);
  return {};
}

/// An attribute up to opset 8.
std::optional<std::vector<float>> scales_of(const FrameSite& site) {
  if (const auto* attribute = site.node().find("scales")) {
    const auto* list = std::get_if<std::vector<float>>(&attribute->value);
    return list == nullptr ? std::nullopt : std::optional(*list);
  }
  return site.floats(site.opset() < 11 ? 1 : 2);
}

/// Its axis of frames must stay as it is: of one size, or of scale 1.
Status resize(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto* mode = site.node().find("coordinate_transformation_mode");
  const auto* text = mode == nullptr ? nullptr : std::get_if<std::string>(&mode->value);
  if (text != nullptr && *text == "tf_crop_and_resize") return site.refuse("it crops");
  if (site.node().find("keep_aspect_ratio_policy") != nullptr) {
    return site.refuse("it keeps the ratio of its sizes");
  }
  std::vector<int> resized;
  for (std::size_t k = 0; k < site.made().size(); ++k) {
    if (site.made()[k] != site.sizes(0)[k]) resized.push_back(static_cast<int>(k));
  }
  PENSTOCK_CHECK_OK(keep_off(site, resized));
  PENSTOCK_TRY(const auto axes, list_of(site, "axes", std::numeric_limits<std::size_t>::max()));
  if (site.has_input(3)) {
    PENSTOCK_CHECK_OK(resize_sizes(site, axes));
  } else {
    const auto scales = scales_of(site);
    if (!scales) return site.refuse("its scales are no constant");
    for (std::size_t k = 0; k < scales->size(); ++k) {
      const int own = axes ? wrapped((*axes)[k], site.made().size()) : static_cast<int>(k);
      if (own == site.axis(0) && (*scales)[k] != 1) return site.refuse("it scales the frames");
    }
  }
  site.give(0, site.axis(0));
  return {};
}

/// Its result is that of one frame.
Status shape_rule(FrameSite& site) {
  const auto count = site.made().front();
  const auto first = wrapped(site.node().int_or("start", 0), site.sizes(0).size());
  const int element = site.axis(0) - std::max(first, 0);
  if (element >= 0 && element < count)
    site.count_one_frame(at(element), at(static_cast<int>(count)));
  return {};
}

Status size_rule(FrameSite& site) {
  site.count_one_frame();
  return {};
}

}  // namespace

void add_shape_rules(FrameRules& rules) {
  add_rule(rules, concatenate_all, {"Concat"});
  add_rule(rules, concatenate_quantised, {"com.microsoft.QLinearConcat"});
  add_rule(rules, expand, {"Expand"});
  add_rule(rules, flatten, {"Flatten"});
  add_rule(rules, pad, {"Pad"});
  add_rule(rules, reshape, {"Reshape"});
  add_rule(rules, resize, {"Resize", "Upsample"});
  add_rule(rules, shape_rule, {"Shape"});
  add_rule(rules, size_rule, {"Size"});
  add_rule(rules, slice_rule, {"Slice"});
  add_rule(rules, split, {"Split"});
  add_rule(rules, squeeze, {"Squeeze"});
  add_rule(rules, tile, {"Tile"});
  add_rule(rules, transpose, {"Transpose"});
  add_rule(rules, unsqueeze, {"Unsqueeze"});
}

}  // namespace penstock::graph
