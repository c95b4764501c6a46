// Draws a number of blocks, coarsens, anneals the blocks, then their groups from that result.
#include "penstock/planner/search/multilevel.h"

#include <algorithm>
#include <cmath>

#include "penstock/planner/search/coarsen.h"

namespace penstock::planner {
namespace {

/// A block runs for at most this part of the period, or it fits nowhere well.
constexpr double kLongestCluster = 0.5;

/// Few or many blocks: each number of digits is as likely.
int draw_blocks(const Loads& from, Random& random) {
  const double most = 0.6 * from.instance().groups;
  const double least = std::min(most, std::max(20.0, 3.0 * from.places().devices()));
  return static_cast<int>(least * std::pow(most / least, random.unit()));
}

std::vector<int> project(const std::vector<int>& block_place, const std::vector<int>& block_of) {
  std::vector<int> place_of;
  place_of.reserve(block_of.size());
  for (const int block : block_of) place_of.push_back(block_place[at(block)]);
  return place_of;
}

/// One of the places that support it.
int draw_place(const Loads& loads, int group, Random& random) {
  int drawn = loads.place_of()[at(group)], seen = 0;
  for (int p = 0; p < loads.places().size(); ++p) {
    if (loads.supports(group, p) && random.below(++seen) == 0) drawn = p;
  }
  return drawn;
}

/// Time of everything in the fastest modes, shared by the devices: a rough period.
double fair_share(const Loads& from) {
  const auto& instance = from.instance();
  double sum = 0;
  for (int g = 0; g < instance.groups; ++g) {
    double least = kInfinite;
    for (int m = 0; m < instance.modes; ++m) least = std::min(least, instance.time_of(g, m));
    sum += least;
  }
  return sum / from.places().devices();
}

}  // namespace

Annealed anneal_levels(const Loads& from, const LevelOptions& options, Random& random,
                       const Budget& budget, const Accept& accept) {
  const auto& instance = from.instance();
  // Unordered places can be drawn anew for each block; blocks of ordered ones stay where they are.
  const bool redraw = options.fresh && !from.places().ordered;
  auto keep_apart = redraw ? std::vector<int>(at(instance.groups), 0) : from.place_of();
  for (std::size_t g = 0; g < options.other.size(); ++g) {
    keep_apart[g] = keep_apart[g] * from.places().size() + options.other[g];
  }
  const double longest = kLongestCluster * (redraw ? fair_share(from) : from.period());
  const auto coarse = coarsen(instance, keep_apart, draw_blocks(from, random), longest, random);

  std::vector<int> block_place(at(coarse.instance.groups), 0);
  for (int g = 0; g < instance.groups; ++g) {
    block_place[at(coarse.block_of[at(g)])] = from.place_of()[at(g)];
  }
  Loads blocks(coarse.instance, from.places(), block_place);
  if (redraw) {
    for (int b = 0; b < blocks.instance().groups; ++b) {
      block_place[at(b)] = draw_place(blocks, b, random);
    }
    blocks = Loads(coarse.instance, from.places(), block_place);
  }
  const Accept accept_blocks = [&](const std::vector<int>& place_of) {
    return !accept || accept(project(place_of, coarse.block_of));
  };
  const double hot = options.fresh ? 0.02 : 0.01;
  const auto found = anneal(blocks, {hot, 1e-4, 2 * options.effort * coarse.instance.groups},
                            random, budget, accept_blocks);

  const auto& place_of = found.place_of.empty() ? blocks.place_of() : found.place_of;
  Loads groups(instance, from.places(), project(place_of, coarse.block_of));
  return anneal(groups, {hot / 4, 1e-5, options.effort * instance.groups}, random, budget, accept);
}

}  // namespace penstock::planner
