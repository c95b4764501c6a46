// Covers and bounds beside brute force on random problems; hand-over costs, cycles, ties, errors.
#include "penstock/collage/cover.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "tests/support/sample.h"

namespace penstock::collage {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

NodeSet set_of(int size, const std::vector<int>& nodes) {
  NodeSet set(static_cast<std::size_t>(size));
  for (const int node : nodes) set.add(static_cast<std::size_t>(node));
  return set;
}

/// A problem written as text would be.
struct Problem : CoverProblem {
  explicit Problem(int count) { nodes = count; }
  Problem& value(int producer, std::vector<int> consumers, bool leaves = false, double bytes = 1) {
    values.push_back({producer, std::move(consumers), leaves, bytes});
    return *this;
  }
  Problem& take(const std::vector<int>& members, int backend, double cost, int layout = 0) {
    candidates.push_back({set_of(nodes, members), {backend, layout}, cost});
    return *this;
  }
};

/// 0 -> 1 -> ... -> n - 1.
Problem chain(int n) {
  Problem problem(n);
  problem.value(-1, {0});
  for (int i = 0; i + 1 < n; ++i) problem.value(i, {i + 1});
  problem.value(n - 1, {}, true);
  return problem;
}

std::string shown(const Result<Covers>& covers) {
  if (!covers) return covers.error().message();
  return join(covers->best, " | ", [](const Cover& cover) {
    return concat(join(cover.candidates, " ", [](int c) { return concat(c); }), ": ", cover.cost);
  });
}

std::string best(const CoverProblem& problem, CoverOptions options = {}) {
  return shown(find_covers(problem, options));
}

// --- Against brute force
// --------------------------------------------------------------------------

/// All covers without cycles, cheapest first, by plain enumeration and a cost function of its own.
class BruteForce {
 public:
  explicit BruteForce(const CoverProblem& problem) : problem_(problem) {
    grow(NodeSet(size(problem.nodes)), {});
    std::ranges::sort(costs);
  }
  std::vector<double> costs;

 private:
  static std::size_t size(int n) { return static_cast<std::size_t>(n); }

  void grow(const NodeSet& covered, std::vector<int> chosen) {
    const auto hole = covered.first_hole();
    if (hole >= size(problem_.nodes)) {
      const double cost = cost_of(chosen);
      if (std::isfinite(cost)) costs.push_back(cost);
      return;
    }
    for (int c = 0; c < static_cast<int>(problem_.candidates.size()); ++c) {
      const auto& candidate = problem_.candidates[size(c)];
      if (!candidate.nodes.has(hole) || candidate.nodes.intersects(covered)) continue;
      if (!std::isfinite(candidate.cost)) continue;
      chosen.push_back(c);
      grow(covered | candidate.nodes, chosen);
      chosen.pop_back();
    }
  }

  [[nodiscard]] double cost_of(const std::vector<int>& chosen) const {
    std::vector<int> of_node(size(problem_.nodes), -1);
    double cost = 0;
    for (const int c : chosen) {
      cost += problem_.candidates[size(c)].cost;
      problem_.candidates[size(c)].nodes.each([&](std::size_t node) { of_node[node] = c; });
    }
    const auto place = [&](int c) { return problem_.candidates[size(c)].place; };
    for (const auto& value : problem_.values) {
      const int maker = value.producer < 0 ? -1 : of_node[size(value.producer)];
      const Place from = maker < 0 ? Place() : place(maker);
      std::vector<Place> paid;
      for (const int consumer : value.consumers) {
        const int reader = of_node[size(consumer)];
        if (reader == maker || std::ranges::find(paid, place(reader)) != paid.end()) continue;
        paid.push_back(place(reader));
        cost += problem_.transition(from, place(reader), value.bytes);
      }
      if (value.leaves && maker >= 0) cost += problem_.transition(from, Place(), value.bytes);
    }
    return has_cycle(of_node) ? kInfinite : cost;
  }

  [[nodiscard]] bool has_cycle(const std::vector<int>& of_node) const {
    std::vector<std::pair<int, int>> edges;
    for (const auto& value : problem_.values) {
      if (value.producer < 0) continue;
      for (const int consumer : value.consumers) {
        const int a = of_node[size(value.producer)], b = of_node[size(consumer)];
        if (a != b) edges.emplace_back(a, b);
      }
    }
    for (std::size_t before = edges.size() + 1; before != edges.size();) {
      before = edges.size();
      std::erase_if(edges, [&, copy = edges](const auto& edge) {
        return std::ranges::none_of(copy, [&](const auto& e) { return e.second == edge.first; });
      });
    }
    return !edges.empty();
  }

  const CoverProblem& problem_;
};

class RandomProblem {
 public:
  explicit RandomProblem(std::uint64_t seed) : random_(static_cast<unsigned>(seed)) {}

  Problem make() {
    const int n = number(1, 10);
    Problem problem(n);
    problem.value(-1, {0, number(0, n - 1)}, false, number(0, 3));
    for (int i = 0; i < n; ++i) {
      std::vector<int> consumers;
      for (int j = i + 1; j < n; ++j) {
        if (number(0, 2) == 0 || j == i + 1 + number(0, 1)) consumers.push_back(j);
      }
      const bool leaves = consumers.empty() || number(0, 5) == 0;
      problem.value(i, std::move(consumers), leaves, number(0, 3));
    }
    for (int i = 0; i < n; ++i) {
      for (int b = 0; b < 3; ++b) {
        if (b == 0 || number(0, 2) > 0) problem.take({i}, b, cost(), number(0, 1));
      }
    }
    for (int c = number(0, 14); c > 0; --c) {  // Any sets: cycles among them are ours to avoid.
      std::vector<int> members;
      for (int i = number(0, n - 1), left = number(2, 4); i < n && left > 0; i += number(1, 2)) {
        members.push_back(i);
        --left;
      }
      problem.take(members, number(0, 2), cost(), number(0, 1));
    }
    std::vector<double> table;
    for (int i = 0; i < 64; ++i) table.push_back(number(0, 9) == 0 ? kInfinite : number(0, 4) / 4.);
    for (int i = 0; i < 8; ++i) table[static_cast<std::size_t>(i * 8 + i)] = number(0, 1) / 8.;
    problem.transition = [table](Place from, Place to, double bytes) {
      const auto place = [](Place p) { return (p.backend + 1) * 2 + p.layout; };
      return table[static_cast<std::size_t>(place(from) * 8 + place(to))] * (1 + bytes);
    };
    return problem;
  }
  int number(int low, int high) { return std::uniform_int_distribution<>(low, high)(random_); }

 private:
  double cost() {
    const int kind = number(0, 19);
    return kind == 0 ? kInfinite : kind == 1 ? kNan : number(0, 40) / 4.;
  }
  std::mt19937 random_;
};

TEST(CoverTest, EqualsBruteForceOnRandomNetworks) {
  std::uint64_t covered = 0;
  for (const auto seed : sampled(1500)) {
    const Problem problem = RandomProblem(seed).make();
    const BruteForce all(problem);
    CoverOptions options;
    options.covers = 1 + static_cast<int>(seed % 5);
    const auto found = find_covers(problem, options);
    if (all.costs.empty()) {
      ASSERT_FALSE(found) << seed;
      EXPECT_EQ(found.error().code, Code::kNotFound);
      continue;
    }
    ++covered;
    ASSERT_TRUE(found) << seed << ": " << found.error().message();
    EXPECT_TRUE(found->complete);
    EXPECT_DOUBLE_EQ(found->lower_bound, found->best.front().cost);
    ASSERT_EQ(found->best.size(),
              std::min(all.costs.size(), static_cast<std::size_t>(options.covers)))
        << seed;
    for (std::size_t k = 0; k < found->best.size(); ++k) {
      ASSERT_NEAR(found->best[k].cost, all.costs[k], 1e-9) << seed << " cover " << k;
    }
  }
  EXPECT_GE(covered, in_sample(1000));
}

TEST(CoverTest, BoundsHoldWhereverTheSearchIsStopped) {
  for (const auto seed : sampled(300)) {
    const Problem problem = RandomProblem(seed).make();
    const BruteForce all(problem);
    if (all.costs.empty()) continue;
    CoverOptions options;
    options.max_states = 1 + seed % 20;
    const auto found = find_covers(problem, options);
    if (!found) {
      EXPECT_EQ(found.error().code, Code::kDeadlineExceeded);
      continue;
    }
    EXPECT_LE(found->lower_bound, all.costs.front() + 1e-9) << seed;
    EXPECT_GE(found->best.front().cost, all.costs.front() - 1e-9) << seed;
  }
}

// --- What is chosen
// -------------------------------------------------------------------------------

TEST(CoverTest, ANodeGoesToTheCheaperBackend) {
  EXPECT_EQ(best(chain(1).take({0}, 0, 1).take({0}, 1, 2)), "0: 1");
  EXPECT_EQ(best(chain(1).take({0}, 0, 2).take({0}, 1, 1)), "1: 1");
}

TEST(CoverTest, APlantedAdvantageIsTakenThereAndNowhereElse) {
  Problem problem = chain(12);
  problem.transition = [](Place from, Place to, double) { return from == to ? 0 : 0.5; };
  for (int b = 0; b < 3; ++b) {
    for (int i = 0; i < 12; ++i) {
      for (int j = i; j < 12; ++j) {
        std::vector<int> run;
        double cost = 0;
        for (int k = i; k <= j; ++k) {
          run.push_back(k);
          cost += b == 2 && k >= 4 && k < 8 ? 1 : b == 2 ? 3.5 : b == 1 ? 3.2 : 3;
        }
        problem.take(run, b, cost);
      }
    }
  }
  const auto found = find_covers(problem);
  ASSERT_TRUE(found);
  std::vector<int> backend_of(12);
  for (const int c : found->best.front().candidates) {
    const auto& candidate = problem.candidates[static_cast<std::size_t>(c)];
    candidate.nodes.each([&](std::size_t i) { backend_of[i] = candidate.place.backend; });
  }
  EXPECT_EQ(backend_of, (std::vector<int>{0, 0, 0, 0, 2, 2, 2, 2, 0, 0, 0, 0}));
  EXPECT_EQ(found->best.front().candidates.size(), 3U);
}

TEST(CoverTest, ATransitionChangesTheOptimum) {
  Problem problem = chain(3);
  problem.take({0}, 0, 1).take({1}, 0, 2).take({2}, 0, 1).take({1}, 1, 1);
  EXPECT_EQ(best(problem), "0 3 2: 3");
  problem.transition = [](Place from, Place to, double) {
    return from.backend < 0 || to.backend < 0 || from == to ? 0 : 0.75;
  };
  EXPECT_EQ(best(problem), "0 1 2: 4");
}

TEST(CoverTest, AValueIsHandedOnceToEachPlaceThatReadsIt) {
  Problem problem(3);
  problem.value(0, {1, 2}).take({0}, 0, 1).take({1}, 1, 1).take({2}, 1, 1).take({2}, 2, 1);
  problem.transition = [](Place, Place, double) { return 10; };
  EXPECT_EQ(best(problem, {.covers = 2}), "0 1 2: 13 | 0 1 3: 23");
}

TEST(CoverTest, LayoutsOfOneBackendAreDifferentPlaces) {
  Problem problem = chain(2);
  problem.take({0}, 0, 1, 0).take({0}, 0, 1.25, 1).take({1}, 0, 1, 1);
  problem.transition = [](Place from, Place to, double) {
    return from.backend == to.backend && from.layout != to.layout ? 0.5 : 0;
  };
  EXPECT_EQ(best(problem), "1 2: 2.25");
}

TEST(CoverTest, PartsNeverWaitForEachOtherInACycle) {
  Problem problem(4);  // 0 -> 3 and 1 -> 2: {0, 2} and {1, 3} are cheap and impossible together.
  problem.value(0, {3}).value(1, {2}).take({0, 2}, 0, 1).take({1, 3}, 0, 1);
  for (int i = 0; i < 4; ++i) problem.take({i}, 1, 2);
  EXPECT_EQ(best(problem), "2 1 4: 5");
  EXPECT_EQ(evaluate_cover(problem, {0, 1}).error().message(),
            "candidates 0, 1 wait for each other in a cycle");
}

TEST(CoverTest, OfEqualCostTheFewerPartsWinAndThenTheFirst) {
  Problem problem = chain(3);
  problem.take({0}, 0, 1).take({1}, 0, 1).take({2}, 0, 1).take({0, 1}, 1, 2).take({1, 2}, 1, 2);
  EXPECT_EQ(best(problem, {.covers = 3}), "0 4: 3 | 3 2: 3 | 0 1 2: 3");
}

TEST(CoverTest, KnownCoversAreNeverAnsweredWithAWorseOne) {
  Problem problem = chain(2);
  problem.take({0}, 0, 1).take({1}, 0, 1).take({0, 1}, 1, 1.5);
  CoverOptions options;
  options.max_states = 0;
  options.known = {{0, 1}};
  EXPECT_EQ(best(problem, options), "2: 1.5");
  options.known = {{0}};
  EXPECT_EQ(best(problem, options), "node 1 is not covered");
}

// --- What has no cost
// -----------------------------------------------------------------------------

TEST(CoverTest, NamesTheNodeThatNobodyCovers) {
  Problem problem = chain(2);
  problem.take({0}, 0, 1);
  EXPECT_EQ(best(problem), "node 1: no backend takes it");
  problem.names = {"conv", "resize"};
  EXPECT_EQ(best(problem), "node 'resize': no backend takes it");
}

TEST(CoverTest, CandidatesWithoutACostAreNeverChosen) {
  Problem problem = chain(2);
  problem.take({0}, 0, kNan).take({0, 1}, 1, kInfinite).take({1}, 1, 1);
  EXPECT_EQ(
      best(problem),
      "node 0: no backend runs it; of the candidates that hold it, 1 cannot run and 1 have no "
      "known cost");
  EXPECT_EQ(best(problem.take({0}, 2, 100)), "3 2: 101");
}

TEST(CoverTest, AnImpossibleWayToAStateHidesNoPossibleOne) {
  Problem problem = chain(3);
  problem.take({0}, 0, 1).take({1}, 0, 1).take({0, 1}, 1, 5).take({2}, 2, 1);
  problem.transition = [](Place from, Place to, double) {
    return from.backend == 0 && to.backend == 2 ? kNan : 0;
  };
  EXPECT_EQ(best(problem), "2 3: 6");
}

TEST(CoverTest, SaysSoWhereCandidatesFitTogetherInNoWay) {
  Problem problem = chain(3);
  problem.take({0, 1}, 0, 1).take({1, 2}, 0, 1);
  const auto found = find_covers(problem);
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kNotFound);
  EXPECT_TRUE(
      found.error().message().starts_with("node 2: no set of candidates covers it and every"))
      << found.error().message();
}

TEST(CoverTest, RefusesAProblemThatContradictsItself) {
  EXPECT_EQ(best(chain(1).take({0}, 0, -1)), "candidate 0: expected a cost >= 0, found -1");
  EXPECT_EQ(best(Problem(2).value(1, {0})),
            "value 0: its consumer 0 is no node behind its producer 1");
  EXPECT_EQ(best(chain(1).take({}, 0, 1)), "candidate 0: expected nodes below 1");
  Problem problem = chain(2).take({0}, 0, 1).take({1}, 1, 1);
  problem.transition = [](Place, Place, double) { return -1; };
  EXPECT_EQ(best(problem), "expected transitions of cost >= 0, found a negative one");
}

TEST(CoverTest, ANetworkWithoutNodesIsCoveredByNothing) {
  EXPECT_EQ(best(Problem(0)), ": 0");
}

// --- Sizes
// ----------------------------------------------------------------------------------------

TEST(CoverTest, WideNetworksEndInFewStates) {
  Problem problem(2 + 12 * 4);  // Twelve branches of four nodes.
  std::vector<int> heads, tails;
  const int last = problem.nodes - 1;
  for (int b = 0; b < 12; ++b) heads.push_back(1 + b * 4);
  problem.value(0, heads);
  for (int b = 0; b < 12; ++b) {
    for (int i = 0; i < 3; ++i) problem.value(1 + b * 4 + i, {2 + b * 4 + i});
    problem.value(4 + b * 4, {last});
  }
  problem.value(last, {}, true);
  problem.transition = [](Place from, Place to, double) { return from == to ? 0 : 0.25; };
  for (int i = 0; i < problem.nodes; ++i) problem.take({i}, 0, 2).take({i}, 1, i % 3 == 0 ? 1 : 3);
  for (int b = 0; b < 12; ++b) problem.take({1 + b * 4, 2 + b * 4, 3 + b * 4, 4 + b * 4}, 0, 7);
  CoverOptions options;
  options.max_states = 200'000;
  const auto found = find_covers(problem, options);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_LE(found->lower_bound, found->best.front().cost);
  EXPECT_GE(found->lower_bound, 0.8 * found->best.front().cost);
}

}  // namespace
}  // namespace penstock::collage
