// Along which axis the outputs of each operator hold the frames, given its inputs' axes.
// The rules by operator, and what they share. Internal to graph.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "penstock/graph/frame_site.h"

namespace penstock::graph {

using FrameRule = Status (*)(FrameSite&);
/// By "Op", or "domain.Op".
using FrameRules = std::unordered_map<std::string_view, FrameRule>;

void add_rule(FrameRules& rules, FrameRule rule, std::initializer_list<std::string_view> ops);

void add_elementwise_rules(FrameRules& rules);
void add_item_rules(FrameRules& rules);
void add_axis_rules(FrameRules& rules);
void add_shape_rules(FrameRules& rules);
void add_index_rules(FrameRules& rules);
void add_product_rules(FrameRules& rules);

/// An axis counted from the front.
inline int wrapped(std::int64_t axis, std::size_t rank) {
  return static_cast<int>(axis < 0 ? axis + static_cast<std::int64_t>(rank) : axis);
}

inline std::size_t at(int axis) {
  return static_cast<std::size_t>(axis);
}

/// Of the sizes from `first` up to `last`.
std::int64_t product_of(const Sizes& sizes, std::size_t first, std::size_t last);

/// The axis once the dimensions of `gone` (ascending or not) are dropped.
int without(int axis, const std::vector<int>& gone);

/// Only the inputs named may differ from frame to frame.
Status check_alike(const FrameSite& site, std::initializer_list<std::size_t> may_differ);

/// Moves the frames of an input off the axes that the node works along, where they are there.
Status keep_off(FrameSite& site, const std::vector<int>& axes, std::size_t input = 0);

/// The integers of an attribute, or of a constant input where newer operator sets have one.
Result<std::optional<Sizes>> list_of(const FrameSite& site, const char* attribute,
                                     std::size_t input);

/// The first input element by element; what else it reads is the same for all frames.
Status elementwise(FrameSite& site);

/// Operands broadcast over one another; an old operator set's `axis` aligns them otherwise.
Status broadcast(FrameSite& site, const std::vector<std::size_t>& operands);

}  // namespace penstock::graph
