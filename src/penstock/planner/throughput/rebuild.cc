// Opens a drawn run of stages, coarsens it into blocks, and runs the Frontier for limited steps.
#include "penstock/planner/throughput/rebuild.h"

#include <algorithm>
#include <utility>

#include "penstock/planner/problem/components.h"
#include "penstock/planner/problem/contract.h"
#include "penstock/planner/problem/index.h"
#include "penstock/planner/search/coarsen.h"
#include "penstock/planner/throughput/frontier.h"

namespace penstock::planner {
namespace {

constexpr std::int64_t kSteps = 200'000;  // Of a round: some hundredths of a second.
constexpr double kLongestBlock = 0.5;     // Of the period.
constexpr double kFewer = 0.8, kMore = 1.1;

/// For each of the instance's groups its stage; empty where the split parts one.
std::vector<int> stages_of(const Instance& instance, const Split& split) {
  std::vector<int> stage_of_member, stage_of;
  for (int s = 0; std::cmp_less(s, split.stages.size()); ++s) {
    for (const int g : split.stages[at(s)].groups) {
      if (at(g) >= stage_of_member.size()) stage_of_member.resize(at(g) + 1, -1);
      stage_of_member[at(g)] = s;
    }
  }
  for (int g = 0; g < instance.groups; ++g) {
    const auto members = instance.members[g];
    stage_of.push_back(stage_of_member[at(members.front())]);
    for (const int member : members) {
      if (stage_of_member[at(member)] != stage_of.back()) return {};
    }
  }
  return stage_of;
}

/// Each stage outside [first, last] as one number, each group inside as one.
std::vector<int> shut_stages(const std::vector<int>& stage_of, int stages, int first, int last) {
  std::vector<int> number_of_stage(at(stages), -1), number;
  int next = 0;
  for (const int stage : stage_of) {
    if (stage >= first && stage <= last) {
      number.push_back(next++);
      continue;
    }
    auto& own = number_of_stage[at(stage)];
    if (own < 0) own = next++;
    number.push_back(own);
  }
  return number;
}

/// Numbers that respect the order of the groups; blocks on a circle become one.
std::vector<int> put_in_order(const Instance& instance, const std::vector<int>& block_of) {
  Arcs arcs;
  for (int g = 0; g < instance.groups; ++g) {
    for (const int after : instance.after[g]) {
      if (block_of[at(g)] != block_of[at(after)])
        arcs.emplace_back(block_of[at(g)], block_of[at(after)]);
    }
  }
  const auto place = strong_components(1 + *std::ranges::max_element(block_of), arcs);
  std::vector<int> number;
  for (const int block : block_of) number.push_back(place[at(block)]);
  return number;
}

}  // namespace

std::optional<Split> Rebuilder::run(const Split& split, double period, Random& random,
                                    const Budget& budget) {
  const auto& instance = model_->instance;
  const auto stage_of = stages_of(instance, split);
  if (stage_of.empty()) return std::nullopt;
  const int stages = static_cast<int>(split.stages.size());
  const int opened = std::min(stages, 2 + random.below(stages));
  const int first = random.below(stages - opened + 1);
  auto block_of = shut_stages(stage_of, stages, first, first + opened - 1);
  const auto open = merge_groups(instance, block_of);
  std::vector<int> stage_of_open(at(open.groups));
  for (int g = 0; g < instance.groups; ++g) stage_of_open[at(block_of[at(g)])] = stage_of[at(g)];
  const auto coarse = coarsen(open, stage_of_open, static_cast<int>(blocks_) + stages - opened,
                              kLongestBlock * period, random);
  for (int& block : block_of) block = coarse.block_of[at(block)];

  Model model;
  model.instance = merge_groups(instance, put_in_order(instance, block_of));
  model.replicas = model_->replicas;
  model.latency_cap = model_->latency_cap;
  model.holds_transfers = model_->holds_transfers;
  model.prices = make_prices(model.instance);
  Frontier frontier(model);
  if (!frontier.possible()) return std::nullopt;
  const auto found = frontier.run(period, kSteps, budget);
  if (found.reached == Reached::kStopped) blocks_ = std::max(kLeastBlocks, kFewer * blocks_);
  if (found.reached == Reached::kNone) blocks_ = std::min<double>(instance.groups, kMore * blocks_);
  if (found.reached != Reached::kFound) return std::nullopt;
  return expand(model.instance, found.split);
}

}  // namespace penstock::planner
