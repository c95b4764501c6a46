// Along which axis the outputs of each operator hold the frames, given its inputs' axes.
#include <algorithm>
#include <functional>
#include <initializer_list>
#include <limits>
#include <numeric>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "penstock/graph/frame_site.h"

namespace penstock::graph {
namespace {

using Rule = Status (*)(FrameSite&);

int wrapped(std::int64_t axis, std::size_t rank) {
  return static_cast<int>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

std::int64_t product_of(const Sizes& sizes, std::size_t first, std::size_t last) {
  const auto begin = sizes.begin();
  return std::accumulate(begin + static_cast<std::ptrdiff_t>(first),
                         begin + static_cast<std::ptrdiff_t>(last), std::int64_t{1},
                         std::multiplies<>());
}

std::size_t at(int axis) {
  return static_cast<std::size_t>(axis);
}

/// Only the inputs named may differ from frame to frame.
Status check_alike(const FrameSite& site, std::initializer_list<std::size_t> may_differ) {
  for (std::size_t i = 0; i < site.inputs(); ++i) {
    if (site.axis(i) == kSameForAll || std::ranges::count(may_differ, i) > 0) continue;
    return site.refuse("'", site.name(i), "' differs from frame to frame");
  }
  return {};
}

/// Moves the frames of an input off the axes that the node works along, where they are there.
Status keep_off(FrameSite& site, const std::vector<int>& axes, std::size_t input = 0) {
  const auto taken = [&](int axis) { return std::ranges::count(axes, axis) > 0; };
  if (site.axis(input) == kSameForAll || !taken(site.axis(input))) return {};
  const auto rank = static_cast<int>(site.sizes(input).size());
  for (int axis = 0; axis < rank; ++axis) {
    if (taken(axis)) continue;
    site.place(input, axis);
    return {};
  }
  return site.refuse("it works along each axis of '", site.name(input),
                     "', that of the frames too");
}

/// The integers of an attribute, or of a constant input where newer operator sets have one.
Result<std::optional<Sizes>> list_of(const FrameSite& site, const char* attribute,
                                     std::size_t input) {
  if (site.has_input(input)) {
    auto integers = site.integers(input);
    if (!integers) return site.refuse("'", site.name(input), "' is no constant");
    return integers;
  }
  if (site.node().find(attribute) == nullptr) return std::optional<Sizes>();
  const auto single = site.node().int_or(attribute, 0);
  return std::optional<Sizes>(site.node().ints_or(attribute, {single}));
}

// --- Element by element -------------------------------------------------------------------------

/// The first input element by element; what else it reads is the same for all frames.
Status elementwise(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  site.give_all(site.axis(0));
  return {};
}

/// An axis of the output along which each operand that differs has a frame's whole size, and so
/// can hold the frames; where one of them has them already, if possible.
int axis_of_operands(const FrameSite& site, const std::vector<std::size_t>& operands) {
  const auto made = site.made();
  const auto rank = static_cast<int>(made.size());
  const auto shift = [&](std::size_t i) { return rank - static_cast<int>(site.sizes(i).size()); };
  std::vector<int> wanted;
  for (const auto i : operands) {
    if (site.axis(i) != kSameForAll) wanted.push_back(site.axis(i) + shift(i));
  }
  for (int axis = 0; axis < rank; ++axis) wanted.push_back(axis);
  for (const int axis : wanted) {
    const bool fits = std::ranges::all_of(operands, [&](std::size_t i) {
      const int own = axis - shift(i);
      return site.axis(i) == kSameForAll || (own >= 0 && site.sizes(i)[at(own)] == made[at(axis)]);
    });
    if (fits) return axis;
  }
  return kSameForAll;
}

/// Operands broadcast over one another; an old operator set's `axis` aligns them otherwise.
Status broadcast(FrameSite& site, const std::vector<std::size_t>& operands) {
  if (site.node().domain.empty() && site.opset() < 7) {
    return site.refuse("its rules are of an old operator set");
  }
  const int axis = axis_of_operands(site, operands);
  if (axis == kSameForAll) return site.refuse("its inputs are broadcast along each axis");
  const auto rank = static_cast<int>(site.made().size());
  for (const auto i : operands) {
    const int own = axis - rank + static_cast<int>(site.sizes(i).size());
    if (site.axis(i) != kSameForAll) {
      site.place(i, own);
    } else if (own >= 0 && site.sizes(i)[at(own)] > 1) {
      PENSTOCK_CHECK_OK(site.repeat(i, own));
    }
  }
  site.give(0, axis);
  return {};
}

std::vector<std::size_t> all_inputs(const FrameSite& site) {
  std::vector<std::size_t> all(site.inputs());
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

Status broadcast_all(FrameSite& site) {
  return broadcast(site, all_inputs(site));
}

/// Quantised sums and products: the operands stand between their scales and zero points.
Status broadcast_quantised(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 3}));
  return broadcast(site, {0, 3});
}

Status cast_like(FrameSite& site) {
  site.give(0, site.axis(0));
  return {};
}

Status dropout(FrameSite& site) {
  if (site.has_input(2)) return site.refuse("it may be training");
  return elementwise(site);
}

/// Scales of the whole tensor, or along another axis than that of the frames.
Status quantise(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto scale = site.sizes(1);
  if (scale.size() > 1) return site.refuse("its scales are of blocks");
  if (product_of(scale, 0, scale.size()) > 1) {
    const auto axis = wrapped(site.node().int_or("axis", 1), site.sizes(0).size());
    PENSTOCK_CHECK_OK(keep_off(site, {axis}));
  }
  site.give(0, site.axis(0));
  return {};
}

// --- Each item of a batch by itself -------------------------------------------------------------

/// Convolutions, pools, norms of a channel: the first dimension is the batch's.
Status by_item(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  site.place(0, 0);
  site.give(0, 0);
  return {};
}

/// Indices count through the whole batch.
Status max_pool(FrameSite& site) {
  if (site.has_output(1)) return site.refuse("its indices count through all frames");
  return by_item(site);
}

Status batch_normalisation(FrameSite& site) {
  if (site.node().int_or("training_mode", 0) != 0 || site.has_output(1)) {
    return site.refuse("it is training");
  }
  return by_item(site);
}

// --- Along an axis ------------------------------------------------------------------------------

template <int kDefault>
Status along_axis(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto axis = wrapped(site.node().int_or("axis", kDefault), site.sizes(0).size());
  PENSTOCK_CHECK_OK(keep_off(site, {axis}));
  site.give_all(site.axis(0));
  return {};
}

/// Over all dimensions from one on.
Status from_axis(FrameSite& site, std::int64_t axis) {
  const auto rank = site.sizes(0).size();
  std::vector<int> axes;
  for (int k = wrapped(axis, rank); std::cmp_less(k, rank); ++k) axes.push_back(k);
  PENSTOCK_CHECK_OK(keep_off(site, axes));
  site.give(0, site.axis(0));
  return {};
}

Status softmax(FrameSite& site) {
  if (site.opset() >= 13) return along_axis<-1>(site);
  return from_axis(site, site.node().int_or("axis", 1));
}

Status layer_norm(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  if (site.has_output(1) || site.has_output(2)) return site.refuse("its mean is an output");
  return from_axis(site, site.node().int_or("axis", -1));
}

/// Of matrices in the last two dimensions.
Status triangle(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  return from_axis(site, -2);
}

Status skip_layer_norm(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 1}));
  for (std::size_t i = 1; i < site.node().outputs.size(); ++i) {
    if (site.has_output(i)) return site.refuse("it has more than one output");
  }
  const auto last = static_cast<int>(site.sizes(0).size()) - 1;
  for (const std::size_t i : {0, 1}) PENSTOCK_CHECK_OK(keep_off(site, {last}, i));
  return broadcast(site, {0, 1});
}

Status cumulative_sum(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto axis = site.integers(1);
  if (!axis || axis->size() != 1) return site.refuse("'", site.name(1), "' is no constant");
  PENSTOCK_CHECK_OK(keep_off(site, {wrapped(axis->front(), site.sizes(0).size())}));
  site.give(0, site.axis(0));
  return {};
}

/// The axis once the dimensions of `gone` (ascending or not) are dropped.
int without(int axis, const std::vector<int>& gone) {
  return axis - static_cast<int>(std::ranges::count_if(gone, [&](int g) { return g < axis; }));
}

Status reduce(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  PENSTOCK_TRY(const auto axes, list_of(site, "axes", 1));
  const auto rank = site.sizes(0).size();
  const bool none = !axes || axes->empty();
  if (none && site.node().int_or("noop_with_empty_axes", 0) != 0) return elementwise(site);
  if (none) return site.refuse("it works over all axes, that of the frames too");
  std::vector<int> gone;
  for (const auto axis : *axes) gone.push_back(wrapped(axis, rank));
  PENSTOCK_CHECK_OK(keep_off(site, gone));
  const bool keep = site.node().int_or("keepdims", 1) != 0;
  site.give(0, keep ? site.axis(0) : without(site.axis(0), gone));
  return {};
}

Status arg_reduce(FrameSite& site) {
  const auto axis = wrapped(site.node().int_or("axis", 0), site.sizes(0).size());
  PENSTOCK_CHECK_OK(keep_off(site, {axis}));
  const bool keep = site.node().int_or("keepdims", 1) != 0;
  site.give(0, keep ? site.axis(0) : without(site.axis(0), {axis}));
  return {};
}

// --- The same numbers in another shape ----------------------------------------------------------

/// Where the frames are after a reshape: behind as many numbers as before. Where several axes of
/// one element leave a choice: the same axis if all up to it is as it was, else the first.
int landing(const Sizes& from, int axis, const Sizes& to) {
  const auto before = at(axis) + 1;
  if (to.size() >= before && std::equal(from.begin(), from.begin() + axis + 1, to.begin())) {
    return axis;
  }
  const auto outer = product_of(from, 0, at(axis));
  for (std::size_t k = 0; k < to.size(); ++k) {
    if (product_of(to, 0, k) == outer) return static_cast<int>(k);
  }
  return kSameForAll;
}

Status land(FrameSite& site, Sizes& shape, int& axis) {
  if (shape.empty()) return site.refuse("its output is one number, without a dimension of frames");
  axis = landing(site.sizes(0), site.axis(0), shape);
  if (axis == kSameForAll) {
    site.place(0, 0);
    axis = 0;
  }
  shape[at(axis)] *= site.frames();
  return {};
}

Status reshape(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  if (!site.integers(1)) return site.refuse("its shape is no constant");
  auto shape = site.made();
  int axis = kSameForAll;
  PENSTOCK_CHECK_OK(land(site, shape, axis));
  site.put(1, shape);
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
  site.become_reshape(shape);
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

// --- Shapes given by constants ------------------------------------------------------------------

Status expand(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  auto shape = site.integers(1);
  if (!shape) return site.refuse("its shape is no constant");
  const auto from = site.sizes(0), to = site.made();
  const auto shift = to.size() - from.size();
  std::vector<int> repeated;
  for (std::size_t k = 0; k < from.size(); ++k) {
    if (from[k] != to[k + shift]) repeated.push_back(static_cast<int>(k));
  }
  PENSTOCK_CHECK_OK(keep_off(site, repeated));
  const int axis = site.axis(0) + static_cast<int>(shift);
  const int place = axis - static_cast<int>(to.size() - shape->size());
  if (place >= 0 && (*shape)[at(place)] != 1) {
    (*shape)[at(place)] = to[at(axis)] * site.frames();
    site.put(1, *shape);
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
    return (starts[k] == 0 || starts[k] <= -size) && ends[k] >= size && steps[k] == 1;
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

/// All that there is of one frame becomes all that there is of several.
Status slice_rule(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  PENSTOCK_TRY(auto bounds, bounds_of(site));
  const auto sizes = site.sizes(0);
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
  if (!sizes) return site.refuse("its sizes are no constant");
  for (std::size_t k = 0; k < sizes->size(); ++k) {
    const int axis = axes ? wrapped((*axes)[k], site.made().size()) : static_cast<int>(k);
    if (axis == site.axis(0)) (*sizes)[k] *= site.frames();
  }
  site.put(3, *sizes);
  return {};
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
    const auto scales = site.floats(site.opset() < 11 ? 1 : 2);
    if (!scales) return site.refuse("its scales are no constant");
    for (std::size_t k = 0; k < scales->size(); ++k) {
      const int own = axes ? wrapped((*axes)[k], site.made().size()) : static_cast<int>(k);
      if (own == site.axis(0) && (*scales)[k] != 1) return site.refuse("it scales the frames");
    }
  }
  site.give(0, site.axis(0));
  return {};
}

// --- By index -----------------------------------------------------------------------------------

Status gather(FrameSite& site) {
  const auto data = site.sizes(0), indices = site.sizes(1);
  const auto axis = wrapped(site.node().int_or("axis", 0), data.size());
  if (site.axis(0) != kSameForAll && site.axis(1) != kSameForAll) {
    return site.refuse("both what it takes and from where differ from frame to frame");
  }
  if (site.axis(1) != kSameForAll) {
    site.give(0, axis + site.axis(1));
    return {};
  }
  PENSTOCK_CHECK_OK(keep_off(site, {axis}));
  const int grown = static_cast<int>(indices.size()) - 1;
  site.give(0, site.axis(0) < axis ? site.axis(0) : site.axis(0) + grown);
  return {};
}

/// Both stand in the same place of every frame.
Status gather_elements(FrameSite& site) {
  const auto axis = wrapped(site.node().int_or("axis", 0), site.sizes(0).size());
  if (site.axis(0) == kSameForAll) {
    return site.refuse("'", site.name(0), "' is the same for all frames");
  }
  PENSTOCK_CHECK_OK(keep_off(site, {axis}));
  if (site.sizes(0)[at(site.axis(0))] != site.made()[at(site.axis(0))]) {
    return site.refuse("it takes a part of axis ", site.axis(0), ", where the frames are");
  }
  if (site.axis(1) == kSameForAll) {
    PENSTOCK_CHECK_OK(site.repeat(1, site.axis(0)));
  } else {
    site.place(1, site.axis(0));
  }
  site.give(0, site.axis(0));
  return {};
}

/// Rows of what it changes; the last dimension of the indices says which.
Status scatter_nd(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 2}));
  const auto indices = site.sizes(1);
  const auto rank = static_cast<int>(site.sizes(0).size());
  const auto named = static_cast<int>(indices.back());
  if (named >= rank) return site.spread({0, 2}, true);  // They name single numbers.
  std::vector<int> axes(at(named));
  std::iota(axes.begin(), axes.end(), 0);
  PENSTOCK_CHECK_OK(keep_off(site, axes));
  const int axis = site.axis(0) == kSameForAll ? named : site.axis(0);
  const int of_update = axis - named + static_cast<int>(indices.size()) - 1;
  if (site.axis(0) == kSameForAll) PENSTOCK_CHECK_OK(site.repeat(0, axis));
  if (site.axis(2) == kSameForAll) PENSTOCK_CHECK_OK(site.repeat(2, of_update));
  if (site.axis(2) != kSameForAll) site.place(2, of_update);
  site.give(0, axis);
  return {};
}

/// Rows of a table; the last dimension of the indices says where a row stands.
Status gather_nd(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {1}));
  if (site.node().int_or("batch_dims", 0) != 0) return site.refuse("it has batches of its own");
  PENSTOCK_CHECK_OK(keep_off(site, {static_cast<int>(site.sizes(1).size()) - 1}, 1));
  site.give(0, site.axis(1));
  return {};
}

Status one_hot(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  const auto axis = wrapped(site.node().int_or("axis", -1), site.made().size());
  site.give(0, site.axis(0) < axis ? site.axis(0) : site.axis(0) + 1);
  return {};
}

// --- Products -----------------------------------------------------------------------------------

/// Where the frames of one operand are in the product, counted from its end; off the axis that it
/// sums along.
Result<int> place_in_product(FrameSite& site, std::size_t input, std::size_t other, bool left) {
  const auto rank = static_cast<int>(site.sizes(input).size());
  const auto of_other = static_cast<int>(site.sizes(other).size());
  PENSTOCK_CHECK_OK(keep_off(site, {left || rank == 1 ? rank - 1 : rank - 2}, input));
  const int from_end = rank - 1 - site.axis(input);  // 0: the last axis.
  // The columns of the right operand are the product's; a vector has no columns, or no rows.
  const bool columns = !left && from_end == 0;
  return from_end - (of_other == 1 && !columns ? 1 : 0);
}

/// A dimension of the batch: the other operand has none there, one for all, or gets as many.
Status match_batch(FrameSite& site, std::size_t other, int from_end) {
  const auto sizes = site.sizes(other);
  if (from_end < 2 || std::cmp_greater_equal(from_end, sizes.size())) return {};
  const int own = static_cast<int>(sizes.size()) - 1 - from_end;
  if (site.axis(other) != kSameForAll || sizes[at(own)] == 1) return {};
  return site.repeat(other, own);
}

Status product(FrameSite& site, std::size_t a, std::size_t b) {
  std::optional<int> place;
  for (const auto& [input, other, left] : {std::tuple{a, b, true}, std::tuple{b, a, false}}) {
    if (site.axis(input) == kSameForAll) continue;
    PENSTOCK_TRY(const int found, place_in_product(site, input, other, left));
    if (place && *place != found) {
      return site.refuse("its inputs hold the frames along different axes");
    }
    const bool both = site.axis(other) != kSameForAll;
    if (both && found < 2) return site.refuse("rows and columns both differ from frame to frame");
    PENSTOCK_CHECK_OK(match_batch(site, other, found));
    place = found;
  }
  const auto rank = static_cast<int>(site.made().size());
  const int axis = rank - 1 - place.value_or(0);
  for (const auto input : {a, b}) {
    if (site.axis(input) == kSameForAll) continue;
    if (site.sizes(input)[at(site.axis(input))] != site.made()[at(axis)]) {
      return site.refuse("'", site.name(input), "' is repeated along its axis of frames");
    }
  }
  site.give(0, axis);
  return {};
}

/// Of matrices that both hold the frames where none could stay.
bool in_rows_or_columns(const FrameSite& site) {
  const auto rank = static_cast<int>(site.sizes(0).size());
  if (rank < 2 || site.sizes(1).size() != site.sizes(0).size()) return false;
  if (site.axis(0) == kSameForAll || site.axis(1) == kSameForAll) return false;
  return site.axis(0) != site.axis(1) || site.axis(0) >= rank - 2;
}

Status mat_mul(FrameSite& site) {
  if (in_rows_or_columns(site)) return site.spread({0, 1}, false);
  return product(site, 0, 1);
}

/// Zero points of each row would have to be as many as the rows.
Status mat_mul_integer(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 1}));
  if (site.has_input(2)) {
    const auto zero = site.sizes(2);
    if (product_of(zero, 0, zero.size()) != 1)
      return site.refuse("it has a zero point for each row");
  }
  return product(site, 0, 1);
}

Status mat_mul_quantised(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 3}));
  for (const std::size_t i : {1, 2, 6, 7}) {
    const auto list = site.sizes(i);
    if (product_of(list, 0, list.size()) != 1) return site.refuse("it has a scale for each row");
  }
  return product(site, 0, 3);
}

Status gemm(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 2}));
  if (site.axis(0) == kSameForAll)
    return site.refuse("'", site.name(0), "' is the same for all frames");
  site.place(0, site.node().int_or("transA", 0) != 0 ? 1 : 0);
  if (site.has_input(2)) {
    const auto addend = site.sizes(2);
    const bool rows_of_its_own = addend.size() == 2 && addend[0] > 1;
    if (site.axis(2) == kSameForAll && rows_of_its_own) PENSTOCK_CHECK_OK(site.repeat(2, 0));
    if (site.axis(2) != kSameForAll && (addend.size() != 2 || addend[0] != site.made()[0])) {
      return site.refuse("'", site.name(2), "' is broadcast over the rows");
    }
    if (site.axis(2) != kSameForAll) site.place(2, 0);
  }
  site.give(0, 0);
  return {};
}

/// The letter of the frames stands once in every operand that differs, in no other, and in the
/// result.
Status einsum(FrameSite& site) {
  const auto* attribute = site.node().find("equation");
  const auto* text = attribute == nullptr ? nullptr : std::get_if<std::string>(&attribute->value);
  if (text == nullptr) return site.refuse("its equation is missing");
  std::string equation = *text;
  std::erase(equation, ' ');
  const auto arrow = equation.find("->");
  if (arrow == equation.npos || equation.find('.') != equation.npos) {
    return site.refuse("expected an equation with '->' and without '...', found '", *text, "'");
  }
  const auto result = equation.substr(arrow + 2);
  std::vector<std::string> terms(1);
  for (const char c : equation.substr(0, arrow)) {
    if (c == ',')
      terms.emplace_back();
    else
      terms.back() += c;
  }
  if (terms.size() != site.inputs()) return site.refuse("its equation is of other inputs");
  char letter = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (site.axis(i) == kSameForAll) continue;
    const char own = terms[i][at(site.axis(i))];
    if (letter != 0 && letter != own) return site.refuse("the frames are under two letters");
    letter = own;
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto count = std::ranges::count(terms[i], letter);
    if (count != (site.axis(i) == kSameForAll ? 0 : 1)) {
      return site.refuse("'", site.name(i), "' has the letter of the frames, '", letter, "', ",
                         count, " times");
    }
  }
  const auto place = result.find(letter);
  if (place == result.npos) return site.refuse("it sums over the frames, '", letter, "'");
  site.give(0, static_cast<int>(place));
  return {};
}

// --- Recurrences --------------------------------------------------------------------------------

/// X, W, R, B, sequence_lens and the first states; one layout has the batch first.
Status recurrence_rule(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0, 4, 5, 6}));
  const bool batch_first = site.node().int_or("layout", 0) != 0;
  const int batch = batch_first ? 0 : 1;
  if (site.axis(0) == kSameForAll) {
    PENSTOCK_CHECK_OK(site.repeat(0, batch));
  } else {
    site.place(0, batch);
  }
  for (const std::size_t i : {4, 5, 6}) {
    if (!site.has_input(i)) continue;
    const int own = i == 4 ? 0 : batch;
    if (site.axis(i) == kSameForAll) {
      PENSTOCK_CHECK_OK(site.repeat(i, own));
    } else {
      site.place(i, own);
    }
  }
  site.give(0, batch_first ? 0 : 2);
  site.give(1, batch);
  site.give(2, batch);
  return {};
}

using Rules = std::unordered_map<std::string_view, Rule>;

void add(Rules& rules, Rule rule, std::initializer_list<std::string_view> ops) {
  for (const auto op : ops) rules.emplace(op, rule);
}

void add_elementwise(Rules& rules) {
  add(rules, elementwise,
      {"Abs",
       "Acos",
       "Acosh",
       "Asin",
       "Asinh",
       "Atan",
       "Atanh",
       "BitwiseNot",
       "Cast",
       "Ceil",
       "Celu",
       "Clip",
       "Cos",
       "Cosh",
       "Elu",
       "Erf",
       "Exp",
       "Floor",
       "Gelu",
       "HardSigmoid",
       "HardSwish",
       "Identity",
       "IsInf",
       "IsNaN",
       "LeakyRelu",
       "Log",
       "Mish",
       "Neg",
       "Not",
       "Reciprocal",
       "Relu",
       "Round",
       "Selu",
       "Shrink",
       "Sigmoid",
       "Sign",
       "Sin",
       "Sinh",
       "Softplus",
       "Softsign",
       "Sqrt",
       "Swish",
       "Tan",
       "Tanh",
       "ThresholdedRelu",
       "com.microsoft.Gelu",
       "com.microsoft.QLinearLeakyRelu",
       "com.microsoft.QLinearSigmoid",
       "com.microsoft.QuickGelu"});
}

void add_broadcast(Rules& rules) {
  add(rules, broadcast_all,
      {"Add",
       "And",
       "BitShift",
       "BitwiseAnd",
       "BitwiseOr",
       "BitwiseXor",
       "Div",
       "Equal",
       "Greater",
       "GreaterOrEqual",
       "Less",
       "LessOrEqual",
       "Max",
       "Mean",
       "Min",
       "Mod",
       "Mul",
       "Or",
       "PRelu",
       "Pow",
       "Sub",
       "Sum",
       "Where",
       "Xor",
       "com.microsoft.BiasGelu",
       "com.microsoft.FastGelu"});
  add(rules, broadcast_quantised, {"com.microsoft.QLinearAdd", "com.microsoft.QLinearMul"});
  add(rules, cast_like, {"CastLike"});
  add(rules, dropout, {"Dropout"});
  add(rules, quantise, {"DequantizeLinear", "QuantizeLinear"});
}

void add_by_item(Rules& rules) {
  add(rules, by_item,
      {"AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace", "GlobalAveragePool",
       "GlobalLpPool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN",
       "LpPool", "QLinearConv", "SpaceToDepth", "com.microsoft.FusedConv",
       "com.microsoft.QLinearAveragePool", "com.microsoft.QLinearGlobalAveragePool"});
  add(rules, batch_normalisation, {"BatchNormalization"});
  add(rules, max_pool, {"MaxPool"});
  add(rules, recurrence_rule, {"GRU", "LSTM", "RNN"});
}

void add_along_axes(Rules& rules) {
  add(rules, along_axis<-1>, {"LpNormalization", "TopK"});
  add(rules, softmax, {"Hardmax", "LogSoftmax", "Softmax"});
  add(rules, layer_norm,
      {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"});
  add(rules, skip_layer_norm, {"com.microsoft.SkipLayerNormalization"});
  add(rules, cumulative_sum, {"CumSum"});
  add(rules, triangle, {"Trilu"});
  add(rules, reduce,
      {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
       "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"});
  add(rules, arg_reduce, {"ArgMax", "ArgMin"});
}

void add_shapes(Rules& rules) {
  add(rules, concatenate_all, {"Concat"});
  add(rules, concatenate_quantised, {"com.microsoft.QLinearConcat"});
  add(rules, expand, {"Expand"});
  add(rules, flatten, {"Flatten"});
  add(rules, pad, {"Pad"});
  add(rules, reshape, {"Reshape"});
  add(rules, resize, {"Resize", "Upsample"});
  add(rules, slice_rule, {"Slice"});
  add(rules, split, {"Split"});
  add(rules, squeeze, {"Squeeze"});
  add(rules, tile, {"Tile"});
  add(rules, transpose, {"Transpose"});
  add(rules, unsqueeze, {"Unsqueeze"});
}

void add_indices_and_products(Rules& rules) {
  add(rules, gather, {"Gather"});
  add(rules, gather_elements, {"GatherElements"});
  add(rules, gather_nd, {"GatherND"});
  add(rules, one_hot, {"OneHot"});
  add(rules, scatter_nd, {"ScatterND"});
  add(rules, einsum, {"Einsum"});
  add(rules, gemm, {"Gemm"});
  add(rules, mat_mul, {"MatMul"});
  add(rules, mat_mul_integer, {"MatMulInteger"});
  add(rules, mat_mul_quantised, {"QLinearMatMul"});
}

Rules make_rules() {
  Rules rules;
  add_elementwise(rules);
  add_broadcast(rules);
  add_by_item(rules);
  add_along_axes(rules);
  add_shapes(rules);
  add_indices_and_products(rules);
  return rules;
}

}  // namespace

Status apply_frame_rule(FrameSite& site) {
  static const Rules kRules = make_rules();
  static const std::unordered_map<std::string_view, std::string_view> kReasons = {
      {"Compress", "what it takes differs from frame to frame"},
      {"DynamicQuantizeLinear", "its scale would be that of all frames together"},
      {"If", "its condition differs from frame to frame"},
      {"Loop", "its turns would be those of all frames together"},
      {"NonMaxSuppression", "how much it finds differs from frame to frame"},
      {"NonZero", "how much it finds differs from frame to frame"},
      {"Scan", "its turns would be those of all frames together"},
      {"Shape", "its result counts the frames; a clean import of fixed shapes makes it a constant"},
      {"Size", "its result counts the frames; a clean import of fixed shapes makes it a constant"},
      {"Unique", "how much it finds differs from frame to frame"},
  };
  const auto& node = site.node();
  const auto name = node.domain.empty() ? node.op : node.domain + "." + node.op;
  const auto rule = kRules.find(name);
  if (rule != kRules.end()) return rule->second(site);
  const auto reason = kReasons.find(node.op);
  return site.refuse(reason == kReasons.end() ? "no rule says what its outputs hold then"
                                              : reason->second);
}

}  // namespace penstock::graph
