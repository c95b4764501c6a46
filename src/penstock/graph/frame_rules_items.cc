// Each item of a batch by itself: convolutions, pools, recurrences.
#include "penstock/graph/frame_rules.h"

namespace penstock::graph {
namespace {

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

}  // namespace

void add_item_rules(FrameRules& rules) {
  add_rule(
      rules, by_item,
      {"AveragePool", "Conv", "ConvInteger", "ConvTranspose", "DepthToSpace", "GlobalAveragePool",
       "GlobalLpPool", "GlobalMaxPool", "GroupNormalization", "InstanceNormalization", "LRN",
       "LpPool", "QLinearConv", "SpaceToDepth", "com.microsoft.FusedConv",
       "com.microsoft.QLinearAveragePool", "com.microsoft.QLinearGlobalAveragePool"});
  add_rule(rules, batch_normalisation, {"BatchNormalization"});
  add_rule(rules, max_pool, {"MaxPool"});
  add_rule(rules, recurrence_rule, {"GRU", "LSTM", "RNN"});
}

}  // namespace penstock::graph
