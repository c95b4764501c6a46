// Along an axis: softmax, norms, sums, and which element is the largest.
#include <algorithm>
#include <utility>

#include "penstock/graph/frame_rules.h"

namespace penstock::graph {
namespace {

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

}  // namespace

void add_axis_rules(FrameRules& rules) {
  add_rule(rules, along_axis<-1>, {"LpNormalization", "TopK"});
  add_rule(rules, softmax, {"Hardmax", "LogSoftmax", "Softmax"});
  add_rule(rules, layer_norm,
           {"LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"});
  add_rule(rules, skip_layer_norm, {"com.microsoft.SkipLayerNormalization"});
  add_rule(rules, cumulative_sum, {"CumSum"});
  add_rule(rules, triangle, {"Trilu"});
  add_rule(rules, reduce,
           {"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
            "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"});
  add_rule(rules, arg_reduce, {"ArgMax", "ArgMin"});
}

}  // namespace penstock::graph
