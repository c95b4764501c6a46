// Chains with three backends and made-up costs: best covers, failing backends, an early stop.
#include "penstock/collage/measured_cover.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace penstock::collage {
namespace {

constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

/// All runs of a chain of n nodes, for each of three backends, of costs that are not known yet.
struct Chain {
  explicit Chain(int n, unsigned seed) : random(seed) {
    problem.nodes = n;
    for (int i = 0; i + 1 < n; ++i) problem.values.push_back({i, {i + 1}, false, 1});
    problem.transition = [](Place from, Place to, double) { return from == to ? 0.1 : 0.3; };
    for (int b = 0; b < 3; ++b) {
      std::vector<double> alone;
      for (int i = 0; i < n; ++i) alone.push_back(std::uniform_real_distribution<>(1, 3)(random));
      for (int i = 0; i < n; ++i) {
        NodeSet run(static_cast<std::size_t>(n));
        double sum = 0;
        for (int j = i; j < n; ++j) {
          run.add(static_cast<std::size_t>(j));
          sum += alone[static_cast<std::size_t>(j)];
          problem.candidates.push_back({run, {b, 0}, kUnmeasured});
          least.push_back(0.9 * sum);
          truth.push_back(j == i ? sum : sum * std::uniform_real_distribution<>(0.9, 1.1)(random));
        }
      }
    }
  }
  Measuring measuring() {
    return {.estimate = [this](int c) { return least[static_cast<std::size_t>(c)]; },
            .measure =
                [this](int c) {
                  ++measured;
                  return truth[static_cast<std::size_t>(c)];
                },
            .stop = {}};
  }
  [[nodiscard]] Covers all_known() const {
    auto known = problem;
    for (std::size_t c = 0; c < truth.size(); ++c) known.candidates[c].cost = truth[c];
    auto covers = find_covers(known);
    EXPECT_TRUE(covers);
    return *covers;
  }

  std::mt19937 random;
  CoverProblem problem;
  std::vector<double> least, truth;
  int measured = 0;
};

TEST(MeasuredCoverTest, IsTheBestOfAllByMeasuringSome) {
  int measured = 0, candidates = 0;
  for (unsigned seed = 0; seed < 20; ++seed) {
    Chain chain(8, seed);
    const auto found = find_covers_by_measuring(chain.problem, chain.measuring());
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_TRUE(found->proved);
    EXPECT_DOUBLE_EQ(found->covers.best.front().cost, chain.all_known().best.front().cost);
    measured += chain.measured;
    candidates += static_cast<int>(chain.problem.candidates.size());
  }
  EXPECT_LT(measured, candidates);
}

TEST(MeasuredCoverTest, ABackendThatFailsCostsOnlyItsCandidates) {
  Chain chain(6, 1);
  for (std::size_t c = 0; c < chain.truth.size(); ++c) {
    if (chain.problem.candidates[c].place.backend != 0)
      chain.truth[c] = c % 2 == 0 ? kUnmeasured : kInfinite;
  }
  const auto found = find_covers_by_measuring(chain.problem, chain.measuring());
  ASSERT_TRUE(found) << found.error().message();
  for (const int c : found->covers.best.front().candidates) {
    EXPECT_EQ(chain.problem.candidates[static_cast<std::size_t>(c)].place.backend, 0);
  }
}

TEST(MeasuredCoverTest, WhatIsKnownIsNotMeasured) {
  Chain chain(5, 2);
  for (std::size_t c = 0; c < chain.truth.size(); ++c) {
    chain.problem.candidates[c].cost = chain.truth[c];
  }
  ASSERT_TRUE(find_covers_by_measuring(chain.problem, chain.measuring()));
  EXPECT_EQ(chain.measured, 0);
}

TEST(MeasuredCoverTest, StoppedItAnswersWithWhatIsMeasured) {
  Chain chain(6, 3);
  chain.problem.candidates[5].cost = chain.truth[5];  // The whole chain on the first backend.
  auto measuring = chain.measuring();
  measuring.stop = [&] { return chain.measured == 2; };
  const auto found = find_covers_by_measuring(chain.problem, measuring);
  ASSERT_TRUE(found) << found.error().message();
  EXPECT_EQ(chain.measured, 2);
  EXPECT_FALSE(found->proved);
  EXPECT_EQ(std::ranges::count_if(found->costs, [](double c) { return !std::isnan(c); }), 3);
  EXPECT_LE(found->covers.lower_bound, chain.all_known().best.front().cost + 1e-9);
  chain.measured = 2;
  chain.problem.candidates[5].cost = kUnmeasured;
  EXPECT_EQ(find_covers_by_measuring(chain.problem, measuring).error().code, Code::kNotFound);
}

}  // namespace
}  // namespace penstock::collage
