// What-if costs of a chain with known optima, numbers in sentences, and what the SVG picture shows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/report/explain.h"
#include "penstock/planner/report/svg.h"
#include "penstock/planner/report/what_if.h"
#include "penstock/planner/solve.h"
#include "penstock/planner/testing/test_chain.h"

namespace penstock::planner {
namespace {

using ::testing::HasSubstr;

TEST(WhatIfTest, TellsWhatWouldBe) {
  auto answer = solve(chain_of({4, 4, 4}), {});
  ASSERT_TRUE(answer) << answer.error().message();
  const auto found = what_if(chain_of({4, 4, 4}), {}, kInfinite, *answer);
  ASSERT_EQ(found.size(), 3);
  EXPECT_EQ(found[0].change, "one more a");
  EXPECT_DOUBLE_EQ(found[0].cost, 6);
  EXPECT_NEAR(found[1].cost, 8 + 1 / 1.1, 1e-9);
  EXPECT_DOUBLE_EQ(found[2].cost, 9);
  EXPECT_TRUE(found[0].proved && found[0].certain_gain);
  EXPECT_TRUE(found[1].certain_gain);
  EXPECT_FALSE(found[2].certain_gain);
}

TEST(WhatIfTest, WhatHelpsWithoutTheChangeIsTheAnswers) {
  const auto problem = chain_of({4, 3, 2, 5});
  const auto best = solve(problem, {});
  ASSERT_TRUE(best) << best.error().message();
  auto poor = *best;  // As a search that came too early to its end would give it.
  poor.proved = false;
  poor.lower_bound = 1;
  replace_split(problem, {}, Split{{{{0}, 0, {0}}, {{1, 2, 3}, 0, {1}}}}, poor);
  EXPECT_DOUBLE_EQ(poor.cost, 11);
  Options options;
  options.seconds = 0;
  auto answer = poor;
  const auto found = what_if(problem, options, kInfinite, answer);
  EXPECT_DOUBLE_EQ(answer.cost, 8);
  EXPECT_TRUE(answer.proved);
  EXPECT_DOUBLE_EQ(evaluate(problem, answer.split).period, 8);
  for (const auto& item : found) {
    EXPECT_TRUE(item.cost <= 8 || item.change == "half the memory") << item.cost;
  }
  poor.proved = true;  // No more time for the problem as it is: only the changes' plans are left.
  answer = poor;
  what_if(problem, options, kInfinite, answer);
  EXPECT_DOUBLE_EQ(answer.cost, 8);
}

TEST(ExplainTest, TellsNumbersWithoutExponents) {
  const auto problem = chain_of({4, 4, 4});
  auto answer = *solve(problem, {});
  answer.proved = false;
  answer.lower_bound = 0.5;
  answer.gap = 14.1834;
  EXPECT_THAT(explain(problem, {}, answer),
              HasSubstr("at least 0.5: at most 1418 % above the best plan"));
  answer.gap = 2.5e-7;
  EXPECT_THAT(explain(problem, {}, answer), HasSubstr(": at most 0.000025 % above"));
  EXPECT_EQ(cost_text(123456789.25, false), "123456789");
  EXPECT_EQ(cost_text(2.5e-6, false), "0.0000025");
  EXPECT_EQ(cost_text(7.10000004, false), "7.1");
  EXPECT_EQ(cost_text(277.64e-6, true), "277.64 us");
  EXPECT_EQ(cost_text(0, true), "0");
}

TEST(SvgTest, DrawsAPicture) {
  const auto problem = chain_of({4, 3, 2, 5});
  const auto answer = solve(problem, {});
  ASSERT_TRUE(answer);
  const auto svg = to_svg(problem, {}, *answer);
  EXPECT_THAT(svg, HasSubstr("<svg xmlns"));
  EXPECT_THAT(svg, HasSubstr("class=\"bound\""));
  EXPECT_THAT(svg, HasSubstr("viewBox=\"0 0 "));
  EXPECT_THAT(svg, HasSubstr(">bound 8</text>"));
}

TEST(SvgTest, DrawsTheBoundOfTheLatencyAndAllReplicas) {
  const auto problem = chain_of({4, 3, 2, 5});
  Options options;
  options.goal = Goal::kLatency;
  const auto fast = solve(problem, options);
  ASSERT_TRUE(fast);
  EXPECT_THAT(to_svg(problem, options, *fast), HasSubstr("class=\"bound\""));
  EXPECT_THAT(to_svg(problem, options, *fast), HasSubstr(">latency 14</text>"));
  options.goal = Goal::kThroughput;
  options.replicas = true;
  const auto replicated = solve(problem, options);
  ASSERT_TRUE(replicated);
  EXPECT_THAT(to_svg(problem, options, *replicated), HasSubstr("fill=\"url(#mix-0-1)\""));
}

}  // namespace
}  // namespace penstock::planner
