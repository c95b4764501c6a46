// Minimum cuts of random networks of seven nodes beside the costs of all ways to divide them.
#include "penstock/planner/bounds/min_cut.h"

#include <algorithm>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace penstock::planner {
namespace {

struct Arc {
  int a = 0, b = 0;
  double there = 0, back = 0;
};

struct Network {
  std::vector<double> outside, inside;
  std::vector<Arc> arcs;

  [[nodiscard]] double cost(unsigned side) const {
    double sum = 0;
    for (std::size_t i = 0; i < outside.size(); ++i)
      sum += (side >> i & 1U) ? inside[i] : outside[i];
    for (const auto& [a, b, there, back] : arcs) {
      const bool in_a = (side >> a & 1U) != 0, in_b = (side >> b & 1U) != 0;
      if (in_a != in_b) sum += in_a ? there : back;
    }
    return sum;
  }
};

TEST(MinCut, FindsTheCheapestOfAllWays) {
  constexpr int kNodes = 7;
  std::mt19937 random(1);
  std::uniform_real_distribution<double> draw(-1, 1);
  MinCut cut;
  for (int round = 0; round < 500; ++round) {
    Network network;
    cut.reset(kNodes - 1);
    EXPECT_EQ(cut.add_node(), kNodes - 1);
    for (int i = 0; i < kNodes; ++i) {
      network.outside.push_back(draw(random));
      network.inside.push_back(draw(random));
      cut.add_ends(i, network.outside.back(), network.inside.back());
    }
    for (int i = 0; i < 2 * kNodes; ++i) {
      const auto node = [&] { return static_cast<int>(random() % kNodes); };
      Arc arc{node(), node(), std::max(0.0, draw(random)), std::max(0.0, draw(random))};
      if (round % 5 == 0 && i == 0) arc.there = std::numeric_limits<double>::infinity();
      if (arc.a == arc.b) continue;
      network.arcs.push_back(arc);
      cut.add_arc(arc.a, arc.b, arc.there, arc.back);
    }
    double least = std::numeric_limits<double>::infinity();
    for (unsigned side = 0; side < 1U << kNodes; ++side)
      least = std::min(least, network.cost(side));
    EXPECT_NEAR(cut.run(), least, 1e-9);
    unsigned side = 0;
    for (int i = 0; i < kNodes; ++i) side |= cut.is_inside(i) ? 1U << i : 0U;
    EXPECT_NEAR(network.cost(side), least, 1e-9);
  }
}

}  // namespace
}  // namespace penstock::planner
