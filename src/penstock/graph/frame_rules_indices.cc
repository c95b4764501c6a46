// By index: what is taken from, or put to, places that another tensor names.
#include <numeric>

#include "penstock/graph/frame_rules.h"

namespace penstock::graph {
namespace {

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
  if (is_open(indices.back())) return site.refuse("the size of '", site.name(1), "' is open");
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

}  // namespace

void add_index_rules(FrameRules& rules) {
  add_rule(rules, gather, {"Gather"});
  add_rule(rules, gather_elements, {"GatherElements"});
  add_rule(rules, gather_nd, {"GatherND"});
  add_rule(rules, one_hot, {"OneHot"});
  add_rule(rules, scatter_nd, {"ScatterND"});
}

}  // namespace penstock::graph
