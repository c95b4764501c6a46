// Merges each block into one group, and cuts the line of blocks exactly with best_on_line().
#include "penstock/planner/baselines/pipedream.h"

#include <algorithm>
#include <numeric>

#include "penstock/planner/baselines/blocks.h"
#include "penstock/planner/problem/contract.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/throughput/probe.h"

namespace penstock::planner {
namespace {

constexpr std::int64_t kMostMultisets = 10'000;  // More take longer than a baseline is worth.

}  // namespace

std::optional<Split> pipedream_split(const Instance& instance, const std::vector<int>& devices,
                                     const Budget& budget) {
  const auto blocks = find_blocks(instance);
  std::vector<int> block_of(at(instance.groups)), order(blocks.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    for (const int group : blocks[b]) block_of[at(group)] = static_cast<int>(b);
  }
  std::iota(order.begin(), order.end(), 0);
  Model model;
  model.instance = merge_groups(instance, block_of);
  model.instance.type_count = devices;
  model.prices = make_prices(model.instance);
  const Line line(model, order);
  if (Probe(line).multisets() > kMostMultisets) return std::nullopt;
  const auto found = best_on_line(line, 0, kInfinite, budget);
  if (!found.proved || found.stages.empty()) return std::nullopt;
  auto split = split_of(line, found.stages);
  for (auto& stage : split.stages) {
    std::vector<int> groups;
    for (const int b : stage.groups) {
      groups.insert(groups.end(), blocks[at(b)].begin(), blocks[at(b)].end());
    }
    std::ranges::sort(groups);
    stage.groups = std::move(groups);
  }
  return split;
}

}  // namespace penstock::planner
