// The table of all rules, the reasons where there is none, and the steps that several rules share.
#include "penstock/graph/frame_rules.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

namespace penstock::graph {
namespace {

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

FrameRules make_rules() {
  FrameRules rules;
  add_elementwise_rules(rules);
  add_item_rules(rules);
  add_axis_rules(rules);
  add_shape_rules(rules);
  add_index_rules(rules);
  add_product_rules(rules);
  return rules;
}

}  // namespace

void add_rule(FrameRules& rules, FrameRule rule, std::initializer_list<std::string_view> ops) {
  for (const auto op : ops) rules.emplace(op, rule);
}

std::int64_t product_of(const Sizes& sizes, std::size_t first, std::size_t last) {
  const auto begin = sizes.begin();
  return std::accumulate(begin + static_cast<std::ptrdiff_t>(first),
                         begin + static_cast<std::ptrdiff_t>(last), std::int64_t{1},
                         std::multiplies<>());
}

Status check_alike(const FrameSite& site, std::initializer_list<std::size_t> may_differ) {
  for (std::size_t i = 0; i < site.inputs(); ++i) {
    if (site.axis(i) == kSameForAll || std::ranges::count(may_differ, i) > 0) continue;
    return site.refuse("'", site.name(i), "' differs from frame to frame");
  }
  return {};
}

Status keep_off(FrameSite& site, const std::vector<int>& axes, std::size_t input) {
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

int without(int axis, const std::vector<int>& gone) {
  return axis - static_cast<int>(std::ranges::count_if(gone, [&](int g) { return g < axis; }));
}

Status elementwise(FrameSite& site) {
  PENSTOCK_CHECK_OK(check_alike(site, {0}));
  site.give_all(site.axis(0));
  return {};
}

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
    } else if (own >= 0 && site.sizes(i)[at(own)] != 1) {
      PENSTOCK_CHECK_OK(site.repeat(i, own));
    }
  }
  site.give(0, axis);
  return {};
}

Status apply_frame_rule(FrameSite& site) {
  static const FrameRules kRules = make_rules();
  static const std::unordered_map<std::string_view, std::string_view> kReasons = {
      {"Compress", "what it takes differs from frame to frame"},
      {"DynamicQuantizeLinear", "its scale would be that of all frames together"},
      {"If", "its condition differs from frame to frame"},
      {"Loop", "its turns would be those of all frames together"},
      {"NonMaxSuppression", "how much it finds differs from frame to frame"},
      {"NonZero", "how much it finds differs from frame to frame"},
      {"Scan", "its turns would be those of all frames together"},
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
