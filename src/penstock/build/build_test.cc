#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/build/contest.h"
#include "penstock/build/outcome.h"
#include "penstock/build/plans.h"
#include "penstock/build/report.h"

namespace penstock::build {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Report example() {
  Report report;
  report.model = "a <model> & more";
  report.goal = "throughput";
  report.devices = {"cpu:0", "cpu:1"};
  report.chosen = "one on each device";
  report.ways = {{"one on each device", "one on cpu:0,cpu:1", "ab12", 100.5, 0, 0.01, 0.2, ""},
                 {"two on each device", "", "cd34", 0, 0, 0, 0, "wrong output: 'y' of frame 0"}};
  report.simple = {{.name = "onnxruntime", .frames_per_second = 50}};
  report.parts = {
      {0, "one", "a .. b", {0, 1}, {{"one", 0.01, 0.009, 0.011, 1, ""}}, "the only one"}};
  report.nodes = {{"a", "Conv", {}, 0, "one", 0.006}, {"b", "Relu", {0}, 0, "one", 0.004}};
  report.period_seconds = 1 / 100.5;
  report.outputs = {{"y", "1e-3 |e|", ""}};
  report.notes = {"left out: two on \"b\""};
  return report;
}

TEST(ReportTest, ComesBackFromItsText) {
  const auto text = to_json(example());
  const auto again = report_from_json(text);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(to_json(*again), text);
  EXPECT_EQ(again->ways[1].failure, "wrong output: 'y' of frame 0");
}

TEST(ReportTest, LeavesOutWhatDiffersFromRunToRun) {
  auto report = example();
  const auto text = to_json(report);
  report.seconds = 12;
  report.measured_parts = 3;
  report.now = report.simple;
  EXPECT_EQ(to_json(report), text);
}

TEST(ReportTest, RefusesWhatIsNoReport) {
  const auto error = [](const char* text) { return report_from_json(text).error().message(); };
  EXPECT_THAT(error("{"), HasSubstr("build.json: "));
  EXPECT_THAT(error("{}"), HasSubstr("version"));
  EXPECT_THAT(error(R"({"version": 99})"), HasSubstr("expected version 3, found 99"));
}

TEST(ReportTest, RefusesIndicesOfNothing) {
  const auto error = [](const auto& change) {
    auto report = example();
    change(report);
    const auto read = report_from_json(to_json(report));
    return read ? "" : read.error().message();
  };
  EXPECT_EQ(error([](Report&) {}), "");
  EXPECT_EQ(error([](Report& report) { report.nodes[1].inputs = {0, 1}; }),
            "build.json: nodes[1].inputs: expected an integer from 0 to below 1, found 1");
  EXPECT_EQ(error([](Report& report) { report.nodes[1].inputs = {-1}; }),
            "build.json: nodes[1].inputs: expected an integer from 0 to below 1, found -1");
  EXPECT_EQ(error([](Report& report) { report.nodes[0].inputs = {0}; }),
            "build.json: nodes[0].inputs: expected none, found 0");
  EXPECT_EQ(error([](Report& report) { report.nodes[0].stage = 2; }),
            "build.json: nodes[0].stage: expected an integer from 0 to below 2, found 2");
  EXPECT_EQ(error([](Report& report) { report.parts[0].stage = -1; }),
            "build.json: parts[0].stage: expected an integer from 0 to below 2, found -1");
  EXPECT_EQ(error([](Report& report) { report.parts[0].nodes = {0, 7}; }),
            "build.json: parts[0].nodes: expected an integer from 0 to below 2, found 7");
}

TEST(ReportTest, RefusesAnUnknownGoal) {
  auto report = example();
  report.goal = "<script>";
  EXPECT_EQ(report_from_json(to_json(report)).error().message(),
            "build.json: goal: expected 'throughput' or 'latency', found '<script>'");
}

TEST(PageTest, StandsAloneAndEscapes) {
  auto report = example();
  report.goal = "<goal>";  // Of a report that no text gave.
  const auto page = to_html(report);
  EXPECT_THAT(page, HasSubstr("Goal &lt;goal&gt;, devices"));
  EXPECT_THAT(page, HasSubstr("a &lt;model&gt; &amp; more"));
  EXPECT_THAT(page, HasSubstr("1 b (Relu), stage0, one, 4000 us"));
  EXPECT_THAT(page, HasSubstr("left out: wrong output"));
  EXPECT_THAT(page, Not(HasSubstr("http")));
}

TEST(PageTest, ComparesFramesPerSecond) {
  auto report = example();
  report.lower_bound_seconds = 0.005;
  const auto page = to_html(report);
  EXPECT_THAT(page, HasSubstr("9950 us a frame, measured; by the measured costs no plan is under"));
  EXPECT_THAT(page, HasSubstr("one on each device<td class=\"n\">100.5<td class=\"n\">"
                              "<td class=\"n\">1 x<td>"));
}

TEST(PageTest, ComparesLatenciesWhereTheyAreTheGoal) {
  auto report = example();
  report.goal = "latency";
  report.latency_seconds = 0.008;
  report.lower_bound_seconds = 0.005;  // Of the period.
  report.ways[0].latency_seconds = 0.008;
  report.simple = {{.name = "per core", .frames_per_second = 400, .latency_seconds = 0.02},
                   {.name = "penstock", .frames_per_second = 100, .latency_seconds = 0.01}};
  const auto page = to_html(report);
  EXPECT_THAT(page, HasSubstr("8000 us from push to pop, measured."));
  EXPECT_THAT(page, Not(HasSubstr("no plan is under")));
  EXPECT_THAT(page, HasSubstr("per core<td class=\"n\">400<td class=\"n\">20 ms"
                              "<td class=\"n\">2 x<td>"));
  EXPECT_THAT(page, HasSubstr("one on each device<td class=\"n\">100.5<td class=\"n\">8000 us"
                              "<td class=\"n\">1 x<td>"));
}

TEST(PlansTest, CorrectsTheNodesOfAStageToWhatItTook) {
  partition::SplitOptions split;
  split.stages.resize(2);
  split.stages[0].nodes = {graph::NodeId{0}, graph::NodeId{1}};
  split.stages[1].nodes = {graph::NodeId{2}};
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}}};
  for (auto& stage : split.stages) stage.devices = devices;
  std::vector<double> seconds = {1, 3, 5};
  correct(seconds, {{}, devices}, split, {8, 0});  // Of the second nothing was measured.
  EXPECT_THAT(seconds, ElementsAre(DoubleEq(2), DoubleEq(6), DoubleEq(5)));
}

TEST(PlansTest, CorrectsByWhatTheStagesDeviceMakesOfTheNodes) {
  graph::Graph graph;
  graph.nodes.resize(2);
  graph.nodes[0].op = "Relu";  // Moves bytes: as fast on two CPUs, by the analytic model.
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1, 2}}};
  partition::SplitOptions split;
  split.stages.resize(1);
  split.stages[0].nodes = {graph::NodeId{0}};
  split.stages[0].devices = {devices[1]};
  std::vector<double> seconds = {1, 3};
  correct(seconds, {graph, devices}, split, {2});
  EXPECT_THAT(seconds, ElementsAre(DoubleEq(2), DoubleEq(3)));
}

TEST(PlansTest, MergesPartsOfOneBackendThatFollowOneAnother) {
  const auto part = [](const char* backend, std::vector<std::uint32_t> nodes) {
    partition::ChosenPart made{backend, {}, {}};
    for (const auto node : nodes) made.nodes.push_back(graph::NodeId{node});
    return made;
  };
  Cover cover = {part("one", {0, 4}), part("one", {1, 2}), part("two", {3}), part("one", {5})};
  const auto merged = merge_neighbours(cover);
  ASSERT_EQ(merged.size(), 3U);
  EXPECT_EQ(merged[0].nodes, part("", {0, 1, 2, 4}).nodes);
  EXPECT_EQ(merged[2].nodes, part("", {5}).nodes);
  EXPECT_EQ(name_of(merged), "one+two in 3 parts");
  cover[1].options["key"] = "other";
  EXPECT_EQ(merge_neighbours(cover).size(), 4U);
}

TEST(OutcomeTest, ComesBackFromItsText) {
  Outcome outcome;
  outcome.budget_seconds = 25;
  outcome.most_parts = 7;
  outcome.report = example();
  outcome.contestant.name = "one+two in 2 parts on each device, cover 3";
  outcome.contestant.as_is = true;
  partition::ChosenStage stage;
  stage.nodes = {graph::NodeId{0}, graph::NodeId{1}};
  stage.devices = {{.host = {}, .cpus = {0}}, {.host = {}, .cpus = {2, 3}}};
  stage.parts = {{"one", {{"key", "value"}}, {graph::NodeId{1}}}, {"two", {}, {graph::NodeId{0}}}};
  outcome.contestant.split.stages = {stage};
  const auto again = outcome_from_json(to_json(outcome));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(to_json(*again), to_json(outcome));
  EXPECT_EQ(again->most_parts, 7);
  EXPECT_EQ(again->contestant.split.stages[0].devices[1].cpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(again->contestant.split.stages[0].parts[0].options.at("key"), "value");
  EXPECT_FALSE(outcome_from_json("{}"));
}

TEST(ContestTest, ThePlansHashIsOfWhatDecidesHowItRuns) {
  plan::Plan plan;
  plan.model = "m";
  const auto hash = hash_of(plan);
  plan.prediction.period_seconds = 3;
  plan.origin.penstock = "9";
  EXPECT_EQ(hash_of(plan), hash);
  plan.stages.emplace_back();
  EXPECT_NE(hash_of(plan), hash);
}

}  // namespace
}  // namespace penstock::build
