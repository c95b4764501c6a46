// Reports, scores, recall, stage plans, memory and traces, by invented numbers and graphs.
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "penstock/base/quantile.h"
#include "penstock/cost/activations.h"
#include "penstock/device/grouping.h"
#include "penstock/session/state_loops.h"
#include "penstock/tune/budget.h"
#include "penstock/tune/build.h"
#include "penstock/tune/contest.h"
#include "penstock/tune/context.h"
#include "penstock/tune/describe.h"
#include "penstock/tune/outcome.h"
#include "penstock/tune/plans.h"
#include "penstock/tune/recall.h"
#include "penstock/tune/report.h"
#include "penstock/tune/room.h"
#include "penstock/tune/simple.h"
#include "penstock/tune/steady.h"
#include "penstock/tune/test_graphs.h"
#include "penstock/tune/typical.h"
#include "tests/support/made_up_topologies.h"
#include "tests/support/no_more_threads.h"
#include "tests/support/temporary_folder.h"

namespace penstock::tune {
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
  report.ways = {
      {"one on each device", "one on cpu:0,cpu:1", "ab12", 100.5, 0, 0.01, {100, 101}, 0.2, ""},
      {"two on each device", "", "cd34", 0, 0, 0, {}, 0, "wrong output: 'y' of frame 0"}};
  report.comparison = {.plan = {.name = "penstock", .frames_per_second = 100},
                       .simple = {{.name = "onnxruntime", .frames_per_second = 50}}};
  report.parts = {
      {0, "one", "a .. b", {0, 1}, {{"one", 0.01, 0.009, 0.011, 1, ""}}, "the only one"}};
  report.nodes = {{"a", "Conv", {}, 0, "one", 0.006}, {"b", "Relu", {0}, 0, "one", 0.004}};
  report.period_seconds = 1 / 100.5;
  report.outputs = {{"y", "1e-3 |e|", ""}};
  report.trace = {0.02, 2, {{"stage0/0 on cpu:0", {{7, -0.001, 0, 0.01}, {8, 0.005, 0.01, 0.02}}}}};
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

Report application() {
  auto report = example();
  auto network = example();
  network.node = "detect";
  network.model = "detect.onnx";
  report.networks = {network};
  return report;
}

TEST(ReportTest, KeepsTheNetworksOfAnApplication) {
  const auto text = to_json(application());
  const auto again = report_from_json(text);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(to_json(*again), text);
  ASSERT_EQ(again->networks.size(), 1U);
  EXPECT_EQ(again->networks[0].node, "detect");
  EXPECT_EQ(again->networks[0].model, "detect.onnx");
  EXPECT_EQ(again->networks[0].parts[0].trials[0].backend, "one");
}

TEST(ReportTest, NamesTheNetworkThatIsDamaged) {
  auto report = application();
  report.networks[0].nodes[1].stage = 9;
  EXPECT_EQ(report_from_json(to_json(report)).error().message(),
            "build.json: networks[0].nodes[1].stage: expected an integer from 0 to below 2, "
            "found 9");
  auto json = nlohmann::json::parse(to_json(application()));
  json["networks"][0].erase("node");
  EXPECT_EQ(report_from_json(json.dump()).error().message(),
            "build.json: networks[0].node: missing");
}

TEST(BuildTest, WhereTheSystemHasNoThreadThatIsSaid) {
  const TemporaryFolder folder;
  Options options;
  options.output = folder.path() / "model.penstock";
  auto database = cost::Database::in_memory();
  ASSERT_TRUE(database) << database.error().message();
  const NoMoreThreads limited;
  const auto refused = build_model(weighed({1}), options, {}, *database);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_THAT(refused.error().message(), testing::HasSubstr("no thread could be started"));
}

TEST(BuildTest, WhatTakesNotMuchLongerThanTheReferenceIsNoHang) {
  const auto graph = weighed({1});
  const Options options{.budget_seconds = 60};
  const auto backends = backend::Registry();
  auto database = cost::Database::in_memory();
  ASSERT_TRUE(database) << database.error().message();
  Context context(graph, options, backends, *database);
  EXPECT_EQ(context.silence_seconds(), 300) << "of the reference itself";
  context.shortlist.tried(kSureEngine, 0.5);
  EXPECT_EQ(context.silence_seconds(), 10) << "a sixth of the budget";
  context.shortlist.tried(kSureEngine, 14.7);
  EXPECT_DOUBLE_EQ(context.silence_seconds(), 4 * 14.7);
  context.shortlist.tried(kSureEngine, 200);
  EXPECT_EQ(context.silence_seconds(), 300);
}

TEST(ReportTest, LeavesOutWhatDiffersFromRunToRun) {
  auto report = example();
  const auto text = to_json(report);
  report.seconds = 12;
  report.measured_parts = 3;
  report.now = report.comparison;
  EXPECT_EQ(to_json(report), text);
}

TEST(ReportTest, RefusesWhatIsNoReport) {
  const auto error = [](const char* text) { return report_from_json(text).error().message(); };
  EXPECT_THAT(error("{"), HasSubstr("build.json: "));
  EXPECT_THAT(error("{}"), HasSubstr("version"));
  EXPECT_THAT(error(R"({"version": 99})"), HasSubstr("expected version 3 to 8, found 99"));
}

TEST(ReportTest, NamesTheFieldThatIsDamaged) {
  const auto error = [](const char* pointer, const nlohmann::json& value) {
    auto json = nlohmann::json::parse(to_json(example()));
    json[nlohmann::json::json_pointer(pointer)] = value;
    const auto read = report_from_json(json.dump());
    return read ? "" : read.error().message();
  };
  EXPECT_EQ(error("/period_seconds", nullptr),
            "build.json: period_seconds: expected a number, found null");
  EXPECT_EQ(error("/parts/0/trials/0/seconds", "x"),
            "build.json: parts[0].trials[0].seconds: expected a number, found 'x'");
  EXPECT_EQ(error("/nodes", 5), "build.json: nodes: expected a list, found 5");
  EXPECT_EQ(error("/nodes/1", nlohmann::json::object()), "build.json: nodes[1].name: missing");
  EXPECT_EQ(error("/nodes/1/stage", 1e300),
            "build.json: nodes[1].stage: expected an integer from -2147483648 to 2147483647, "
            "found 1e+300");
  EXPECT_EQ(error("/ways/0/rounds/1", nullptr),
            "build.json: ways[0].rounds[1]: expected a number, found null");
  EXPECT_EQ(error("/trace/lanes/0/name", 1),
            "build.json: trace.lanes[0].name: expected a string, found 1");
}

TEST(ReportTest, CanBeReadWhateverFiguresItHolds) {
  auto report = example();
  report.period_seconds = std::numeric_limits<double>::infinity();
  report.nodes[0].seconds = std::nan("");
  report.ways[0].rounds = {1, std::numeric_limits<double>::infinity()};
  const auto read = report_from_json(to_json(report));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->period_seconds, 0) << "not known";
  EXPECT_EQ(read->ways[0].rounds, (std::vector<double>{1, 0}));
}

TEST(ReportTest, ReadsWhatOlderVersionsWrote) {
  auto json = nlohmann::json::parse(to_json(example()));
  json["version"] = 3;
  for (const auto* later : {"trace", "limit", "networks"}) json.erase(later);
  for (auto& node : json["nodes"]) node.erase("limit_seconds");
  for (auto& part : json["parts"]) part.erase("bound");
  for (const auto* ways : {"ways", "simple"}) {
    for (auto& way : json[ways]) way.erase("rounds");
  }
  const auto read = report_from_json(json.dump());
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->tolerance, example().tolerance);
  EXPECT_EQ(read->ways.size(), example().ways.size());
  EXPECT_TRUE(read->ways[0].rounds.empty());
  EXPECT_TRUE(read->trace.lanes.empty());
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

TEST(PageTest, HoldsNoTagOfTheReport) {
  auto report = example();
  report.notes = {"left out: </script><b>two</b>"};
  const auto page = to_html(report);
  EXPECT_THAT(page, HasSubstr(R"(\u003c/script>\u003cb>two)"));
  EXPECT_THAT(page, HasSubstr("<title>a &lt;model&gt; &amp; more"));
  EXPECT_THAT(page, Not(HasSubstr("<b>two")));
}

Contestant on(const std::vector<device::Device>& devices) {
  Contestant contestant;
  contestant.split.stages.resize(1);
  contestant.split.stages[0].devices = devices;
  return contestant;
}

TEST(BoundTest, IsSharedByDevicesOfOneKind) {
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1}}};
  EXPECT_DOUBLE_EQ(least_period(0.010, devices, {"a", "a"}, on(devices)), 0.005);
}

TEST(BoundTest, IsNotKnownWhereDevicesAreUnlike) {
  // 10 ms on the first and 4 ms on the other: 2.86 ms are possible, not 5.
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1, 2, 3}}};
  EXPECT_EQ(least_period(0.010, devices, {"one", "three"}, on(devices)), 0);
}

TEST(BoundTest, IsNoneOfOneCallOnAllCpusNorOfTheFileAsItIs) {
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1}}};
  EXPECT_EQ(least_period(0.010, devices, {"a", "a"}, on({{.host = {}, .cpus = {0, 1}}})), 0);
  auto as_is = on(devices);
  as_is.as_is = true;
  EXPECT_EQ(least_period(0.010, devices, {"a", "a"}, as_is), 0);
}

Entry entry(const std::string& hash, double score, const std::string& beside = "",
            double ratio = 0) {
  Entry made;
  made.way.hash = hash;
  made.score = score;
  made.beside = beside;
  made.ratio = ratio;
  return made;
}

TEST(ScoreTest, OfAnEarlierMomentOnlyTheRatioCounts) {
  // The plan ran at 150 when the machine was twice as fast, beside one that runs at 100 now.
  EXPECT_EQ(score_among({entry("a", 100)}, entry("b", 150, "a", 0.75)), std::optional(75.0));
}

TEST(ScoreTest, IsNotKnownBesideAPlanThatIsNotHere) {
  EXPECT_EQ(score_among({entry("a", 100)}, entry("b", 150, "c", 0.75)), std::nullopt);
  EXPECT_EQ(score_among({entry("a", 100)}, entry("b", 150)), std::nullopt);
}

TEST(ScoreTest, OfTheFirstSetsTheScale) {
  EXPECT_EQ(score_among({}, entry("b", 150, "c", 0.75)), std::optional(150.0));
  auto failed = entry("a", 0);
  failed.way.failure = "wrong output";
  EXPECT_EQ(score_among({failed}, entry("b", 150)), std::optional(150.0));
}

TEST(ScoreTest, OfOneThatNothingCanStandBesideIsTaken) {
  EXPECT_EQ(score_among({entry("a", 100)}, entry("b", 150, kAlone)), std::optional(150.0));
}

TEST(TurnsTest, GoForwardsAndBackwards) {
  EXPECT_THAT(order_of_turns(3, 0), ElementsAre(0, 1, 2));
  EXPECT_THAT(order_of_turns(3, 1), ElementsAre(2, 1, 0));
}

TEST(BudgetTest, NeedsTrialsTurnsAndStartsForTheLastComparison) {
  Needs needs{.spent_seconds = 2,
              .trial_seconds = 3,
              .whole_networks = 6,
              .compared = 5,
              .comparison_seconds = 2.5};
  EXPECT_DOUBLE_EQ(least_seconds(needs), 2 + 3 * (6 + 6 + 5) + 2.5);
  needs.trial_seconds = 0.5;
  EXPECT_DOUBLE_EQ(least_seconds(needs), 2 + 0.5 * (6 + 5) + 6 + 2.5) << "turns take a second";
  EXPECT_DOUBLE_EQ(least_seconds({.spent_seconds = 2, .comparison_seconds = 2.5}), 4.5);
}

/// What each of the simple ways, then the plan, was worth in every round.
using Rounds = std::vector<double>;
Comparison comparison(const Rounds& onnxruntime, const Rounds& per_core, const Rounds& plan) {
  const auto way = [](const char* name, const Rounds& rounds) {
    return WayReport{.name = name, .frames_per_second = median(rounds), .rounds = rounds};
  };
  return {way("penstock", plan),
          {way("onnxruntime", onnxruntime), way("onnxruntime-per-core", per_core)}};
}

Comparison steady(double onnxruntime, double per_core, double plan) {
  return comparison(Rounds(5, onnxruntime), Rounds(5, per_core), Rounds(5, plan));
}

std::vector<Way> only_onnxruntime() {
  return {{"onnxruntime", {}}};
}

TEST(ComparisonTest, TellsTheSimpleWayThatPassesThePlanByMoreThanNoise) {
  const auto better = [](const Comparison& comparison) {
    const auto way = better_than_plan(comparison, only_onnxruntime(), false);
    return way ? std::string(way->name) : "";
  };
  EXPECT_EQ(better(steady(50, 80, 100)), "");
  EXPECT_EQ(better(steady(50, 101, 100)), "");
  EXPECT_EQ(better(steady(110, 120, 100)), "onnxruntime-per-core");
  EXPECT_EQ(better({.plan = {.name = "penstock", .frames_per_second = 100}, .simple = {}}), "");
  EXPECT_FALSE(better_than_plan(steady(110, 120, 100), {{"openvino", {}}}, false));
}

TEST(ComparisonTest, LeavesOutWhatAPlanWouldDoAsOneThatWasAnswered) {
  const std::vector<Way> both = {{"onnxruntime", {}}, {"openvino", {}}};
  const auto way = [](const char* name, double rate) {
    return WayReport{.name = name, .frames_per_second = rate};
  };
  const Comparison comparison = {way("penstock", 100),
                                 {way("openvino-throughput", 150), way("openvino-per-core", 140),
                                  way("openvino-latency", 120), way("onnxruntime", 101)}};
  std::vector<SimpleWay> answered;
  std::vector<std::string> names;
  while (const auto better = better_than_plan(comparison, both, false, answered)) {
    if (names.size() > 5) break;
    names.emplace_back(better->name);
    answered.push_back(*better);
  }
  EXPECT_THAT(names, ElementsAre("openvino-throughput", "openvino-latency"));
}

TEST(ComparisonTest, IsKeptWithThePlanNamed) {
  const auto read = report_from_json(to_json(example()));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(read->comparison.plan.name, "penstock");
  ASSERT_EQ(read->comparison.simple.size(), 1U);
  EXPECT_EQ(read->comparison.simple[0].name, "onnxruntime");
  auto without = nlohmann::json::parse(to_json(example()));
  without["simple"] = nlohmann::json::array();
  EXPECT_EQ(report_from_json(without.dump()).error().message(),
            "build.json: simple: expected at least the chosen plan, found a list");
}

std::string why(const Comparison& then, const Comparison& now, const std::vector<Way>& ways) {
  return stale(then, now, ways, false).why;
}

TEST(RecallTest, HoldsWhereNothingChanged) {
  EXPECT_EQ(why(steady(50, 80, 100), steady(51, 79, 104), only_onnxruntime()), "");
}

TEST(RecallTest, HoldsOnAMachineThatIsSlowerAsAWhole) {
  EXPECT_EQ(why(steady(50, 80, 100), steady(25, 40, 50), only_onnxruntime()), "");
}

TEST(RecallTest, DoesNotWhereASimpleWayWins) {
  EXPECT_EQ(why(steady(50, 80, 100), steady(50, 110, 100), only_onnxruntime()),
            "the simple way 'onnxruntime-per-core' is 10 % faster than the plan chosen earlier");
  EXPECT_EQ(why({}, steady(50, 110, 100), only_onnxruntime()),
            "the simple way 'onnxruntime-per-core' is 10 % faster than the plan chosen earlier");
  // Its backend was not to be chosen.
  EXPECT_EQ(why(steady(50, 80, 100), steady(50, 105, 100), {{"openvino", {}}}), "");
}

TEST(RecallTest, OfASimpleWayThatHadWonAlreadyASecondSearchIsEnough) {
  const auto then = steady(50, 110, 100), now = steady(50, 111, 100);
  const auto found = stale(then, now, only_onnxruntime(), false);
  EXPECT_EQ(found.why,
            "the simple way 'onnxruntime-per-core' is 11 % faster than the plan chosen earlier");
  EXPECT_EQ(found.way, "onnxruntime-per-core");
  // Once that found nothing better, it holds, unless the simple way gains.
  EXPECT_EQ(stale(then, now, only_onnxruntime(), true).why, "");
  EXPECT_EQ(stale(then, steady(50, 130, 100), only_onnxruntime(), true).why,
            "the simple way 'onnxruntime-per-core' is 30 % faster than the plan chosen earlier");
  // Nor is it a loss where one round of then speaks against it now.
  const auto even = comparison({50, 50, 50}, {98, 99, 106}, {100, 100, 100});
  EXPECT_EQ(stale(even, steady(50, 104, 100), only_onnxruntime(), false).why, "");
}

TEST(RecallTest, TellsLargeFactorsAsSuch) {
  EXPECT_EQ(why(steady(50, 80, 100), steady(50, 1605, 100), only_onnxruntime()),
            "the simple way 'onnxruntime-per-core' is 16.1 times as fast as the plan chosen "
            "earlier");
  EXPECT_EQ(why(steady(5, 5, 10), steady(5, 5, 360), only_onnxruntime()),
            "the plan chosen earlier is at least 36 times as fast as when it was chosen, by itself "
            "and beside the simple ways");
  EXPECT_EQ(why(steady(5, 5, 10), steady(5, 5, 5), {{"openvino", {}}}),
            "the plan chosen earlier is at least 50 % slower than when it was chosen, by itself "
            "and beside the simple ways");
}

TEST(RecallTest, DoesNotWhereThePlanIsOffBesideTheSimpleWays) {
  EXPECT_EQ(why(steady(50, 50, 100), steady(50, 50, 80), only_onnxruntime()),
            "the plan chosen earlier is at least 20 % slower than when it was chosen, by itself "
            "and beside the simple "
            "ways");
  EXPECT_EQ(why(steady(50, 50, 100), steady(50, 50, 120), only_onnxruntime()),
            "the plan chosen earlier is at least 20 % faster than when it was chosen, by itself "
            "and beside the simple "
            "ways");
}

TEST(RecallTest, HoldsWhereARoundSpeaksAgainstIt) {
  const auto then = comparison({50, 50, 50}, {80, 80, 80}, {100, 101, 99});
  EXPECT_EQ(
      why(then, comparison({50, 50, 50}, {115, 115, 101}, {100, 100, 100}), only_onnxruntime()),
      "");
  EXPECT_EQ(why(then, comparison({50, 50, 50}, {80, 80, 80}, {70, 70, 95}), only_onnxruntime()),
            "");
  // Nor is one round of a simple way's own, where the others tell.
  EXPECT_EQ(why(steady(50, 50, 100),
                comparison({50, 5, 50, 50, 50}, {50, 50, 50, 50, 9}, {20, 20, 20, 20, 20}),
                only_onnxruntime()),
            "the plan chosen earlier is at least 80 % slower than when it was chosen, by itself "
            "and beside the simple "
            "ways");
  // What slows all in one round is no noise in the ratio.
  EXPECT_EQ(why(then, comparison({50, 25, 50}, {115, 55, 112}, {100, 50, 100}), only_onnxruntime()),
            "the simple way 'onnxruntime-per-core' is 12 % faster than the plan chosen earlier");
}

TEST(RecallTest, NoiseIsNoReason) {
  // Rounds of 15 % deviation, one in eight of which a neighbour halves; the simple way is as fast.
  std::mt19937_64 random(1);
  std::normal_distribution<double> noise(0, 0.15);
  const auto rounds = [&](double worth) {
    Rounds all;
    for (int i = 0; i < 5; ++i) {
      all.push_back(worth * std::exp(noise(random)) * (random() % 8 == 0 ? 0.5 : 1));
    }
    return all;
  };
  const auto compared = [&] { return comparison(rounds(50), rounds(100), rounds(100)); };
  int measured_again = 0;
  for (int build = 0; build < 2000; ++build) {
    const auto then = compared();
    const bool first = !why(then, compared(), only_onnxruntime()).empty();
    if (first && !why(then, compared(), only_onnxruntime()).empty()) ++measured_again;
  }
  EXPECT_LE(measured_again, 2);
}

TEST(PlansTest, APipelineIsCalledByItsBackendsAndStages) {
  const Cover cover = {{.backend = "a"}, {.backend = "b"}, {.backend = "a"}};
  partition::ChosenStages split;
  split.stages.resize(1);
  EXPECT_EQ(name_of(cover, split, 4), "a+b in 1 stage, plan 4");
  split.stages.resize(2);
  EXPECT_EQ(name_of(cover, split, 5), "a+b in 2 stages, plan 5");
}

TEST(PlansTest, CorrectsTheNodesOfAStageToWhatItTook) {
  partition::ChosenStages split;
  split.stages.resize(2);
  split.stages[0].nodes = {graph::NodeId{0}, graph::NodeId{1}};
  split.stages[1].nodes = {graph::NodeId{2}};
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}}};
  for (auto& stage : split.stages) stage.devices = devices;
  std::vector<double> seconds = {1, 3, 5};
  correct(seconds, {{}, devices}, split, {8, 0});  // Of the second nothing was measured.
  EXPECT_THAT(seconds, ElementsAre(DoubleEq(2), DoubleEq(6), DoubleEq(5)));
}

TEST(PlansTest, SecondsWhereAStageStandsAddUpToWhatItTook) {
  graph::Graph graph;
  graph.nodes.resize(2);
  for (auto& node : graph.nodes) node.op = "Relu";
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}}};
  partition::ChosenStages split;
  split.stages.resize(1);
  split.stages[0].nodes = {graph::NodeId{0}, graph::NodeId{1}};
  split.stages[0].devices = {{.host = {}, .cpus = {0, 1}}};
  const Place place{graph, devices};
  std::vector<double> seconds = {1, 3};
  bring_to_stages(seconds, place, split, {8});
  EXPECT_THAT(seconds, ElementsAre(DoubleEq(2), DoubleEq(6)));
  seconds = {1, 3};
  bring_to_stages(seconds, place, split, {0});
  EXPECT_THAT(seconds[0], place.seconds_on(split.stages[0].devices[0], {graph::NodeId{0}}, {1, 3}));
}

TEST(PlansTest, CorrectsByWhatTheStagesDeviceMakesOfTheNodes) {
  graph::Graph graph;
  graph.nodes.resize(2);
  graph.nodes[0].op = "Relu";  // Moves bytes: as fast on two CPUs, by the analytic model.
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1, 2}}};
  partition::ChosenStages split;
  split.stages.resize(1);
  split.stages[0].nodes = {graph::NodeId{0}};
  split.stages[0].devices = {devices[1]};
  std::vector<double> seconds = {1, 3};
  correct(seconds, {graph, devices}, split, {2});
  EXPECT_THAT(seconds, ElementsAre(DoubleEq(2), DoubleEq(3)));
}

TEST(PlansTest, CorrectsByWhatTheStagesKindOfDeviceMakesOfTheNodes) {
  graph::Graph graph;
  graph.nodes.resize(1);
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1}}};
  partition::ChosenStages split;
  split.stages.resize(1);
  split.stages[0].nodes = {graph::NodeId{0}};
  split.stages[0].devices = {devices[1]};
  std::vector<double> seconds = {1};
  correct(seconds, {graph, devices, {1, 2}}, split, {3});  // 2 were expected there.
  EXPECT_THAT(seconds, ElementsAre(DoubleEq(1.5)));
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

/// x -> head -> h, (h, s) -> body -> b, b -> keep -> t, b -> tail -> y; t is s of the next frame.
graph::Graph looped() {
  graph::Graph graph;
  const auto value = [&](const char* name) {
    graph.values.emplace_back().name = name;
    graph.values.back().type = Type::tensor(DType::kF32, std::vector<std::int64_t>{4});
    return static_cast<graph::ValueId>(graph.values.size() - 1);
  };
  const auto node = [&](const char* name, const std::vector<graph::ValueId>& reads,
                        graph::ValueId makes) {
    const auto id = static_cast<graph::NodeId>(graph.nodes.size());
    auto& made = graph.nodes.emplace_back();
    made.name = name;
    made.op = "Relu";
    made.inputs = reads;
    made.outputs = {makes};
    for (const auto read : reads) graph.values[graph::index(read)].consumers.push_back(id);
    graph.values[graph::index(makes)].producer = id;
  };
  const auto x = value("x"), s = value("s"), h = value("h"), b = value("b"), t = value("t"),
             y = value("y");
  graph.inputs = {x, s};
  graph.outputs = {y, t};
  node("head", {x}, h);
  node("body", {h, s}, b);
  node("keep", {b}, t);
  node("tail", {b}, y);
  return graph;
}

using Nodes = std::vector<graph::NodeId>;

TEST(PlansTest, ALoopIsWhatAStateComesThrough) {
  const auto graph = looped();
  EXPECT_THAT(state_loops(graph, {}), ElementsAre());
  EXPECT_THAT(state_loops(graph, {{"t", "s", ""}}),
              ElementsAre(Nodes{graph::NodeId{1}, graph::NodeId{2}}));
  // What nothing on the way to it reads still writes a state; loops that share a node are one.
  EXPECT_THAT(state_loops(graph, {{"h", "s", ""}}), ElementsAre(Nodes{graph::NodeId{0}}));
  EXPECT_THAT(state_loops(graph, {{"t", "s", ""}, {"y", "s", ""}}),
              ElementsAre(Nodes{graph::NodeId{1}, graph::NodeId{2}, graph::NodeId{3}}));
}

TEST(PlansTest, ReplicatesWhatWritesNoState) {
  const auto graph = looped();
  const std::vector<device::Device> devices = {
      {.host = {}, .cpus = {0}}, {.host = {}, .cpus = {1}}, {.host = {}, .cpus = {2}}};
  const std::vector<double> seconds = {8, 1, 1, 1};  // The head is worth two devices of the three.
  const auto loops = state_loops(graph, {{"t", "s", ""}});
  const auto planned =
      pipelined({graph, devices}, whole_cover(graph, {"one", {}}), {seconds, {}, loops}, true, 5);
  ASSERT_TRUE(planned) << planned.error().message();
  std::map<std::uint32_t, std::size_t> instances;
  for (const auto& stage : planned->split.stages) {
    for (const auto node : stage.nodes) {
      instances[static_cast<std::uint32_t>(graph::index(node))] = stage.devices.size();
    }
  }
  EXPECT_EQ(instances[0], 2U);
  EXPECT_EQ(instances[1], 1U);
  EXPECT_EQ(instances[2], 1U);
}

TEST(RoomTest, HoldsACopyForEachTwiceTheWeights) {
  const Room room(10e9, 45'000'000'000);
  EXPECT_TRUE(room.holds(2));
  EXPECT_FALSE(room.holds(3));
  EXPECT_EQ(room.copies_of(1e9), 22U);
  EXPECT_EQ(room.describe(), "weights of 10 GB, 45 GB of memory left");
}

TEST(RoomTest, HoldsOneCopyWhateverIsLeft) {
  const Room room(10e9, 1'000'000'000);
  EXPECT_TRUE(room.holds(1));
  EXPECT_FALSE(room.holds(2));
}

TEST(RoomTest, CountsBytesWhereCopiesAreShared) {
  const Room room(10e9, 30'000'000'000);
  EXPECT_TRUE(room.holds_bytes(15e9));
  EXPECT_FALSE(room.holds_bytes(16e9));
  EXPECT_TRUE(Room(10e9, 1'000'000'000).holds_bytes(10e9)) << "one copy, whatever is left";
}

TEST(RoomTest, HoldsAnyNumberOfWhatHasNoWeightsOrWhereNothingTells) {
  EXPECT_TRUE(Room(0, 1).holds(1000));
  EXPECT_TRUE(Room(10e9, std::nullopt).holds(1000));
}

TEST(RoomTest, ValuesOfAFrameMayTakeAQuarterOfTheMemoryAndThoseOfAllTheDisk) {
  const TemporarySpace disk{100'000'000'000, false};
  EXPECT_TRUE(has_room_for_values(2e9, 2, 8'000'000'000, disk));
  EXPECT_FALSE(has_room_for_values(2.1e9, 2, 8'000'000'000, disk));
  EXPECT_FALSE(has_room_for_values(2e9, 2, 8'000'000'000, {3'000'000'000, false}));
  EXPECT_FALSE(has_room_for_values(1e9, 2, 8'000'000'000, {100'000'000'000, true})) << "in memory";
  EXPECT_TRUE(has_room_for_values(1e12, 2, std::nullopt, {}));
}

TEST(ActivationsTest, KnowWhatAllNodesMakeOfAFrame) {
  auto graph = weighed({1, 1});
  const std::vector<Tensor> frame{Tensor::allocate(DType::kF32, {100})};
  EXPECT_EQ(cost::Activations::bytes_of_all(graph, frame), 2 * 4 * sizeof(float));
  for (auto& value : graph.values) {
    if (!value.constant) value.type.dims = {Dim{.symbol = "n"}};
  }
  EXPECT_EQ(cost::Activations::bytes_of_all(graph, frame), 2 * 100 * sizeof(float));
}

TEST(ActivationsTest, KeepTheInputsWhereThereIsNoRoomForAll) {
  using Kept = cost::Activations::Kept;
  const auto graph = weighed({1});
  const std::vector<std::vector<Tensor>> frames(2, {Tensor::allocate(DType::kF32, {4})});
  for (const auto& [kept, files] :
       {std::pair(Kept::kAll, 2U), {Kept::kInputs, 2U}, {Kept::kSizes, 0U}}) {
    const auto made = cost::Activations::of_inputs(graph, frames, "digest", kept);
    ASSERT_TRUE(made) << made.error().message();
    EXPECT_EQ(made->files_of("x").size(), files);
  }
}

TEST(ActivationsTest, TellTheSizesOfTheFirstFrame) {
  auto graph = weighed({1, 1});
  for (auto& value : graph.values) {
    if (!value.constant) value.type.dims = {Dim{.symbol = value.name == "x" ? "n" : "m"}};
  }
  const std::vector<std::vector<Tensor>> frames{{Tensor::allocate(DType::kF32, {100})}};
  const auto made = cost::Activations::of_inputs(graph, frames, "", cost::Activations::Kept::kAll);
  ASSERT_TRUE(made) << made.error().message();
  const auto sized = made->sized(graph);
  EXPECT_EQ(sized.value(sized.inputs[0]).type.dims, std::vector{Dim{.size = 100}});
  EXPECT_EQ(sized.value(sized.outputs[0]).type, graph.value(graph.outputs[0]).type) << "not known";
}

TEST(TypicalTest, IsTheFrameOfTheMeanSize) {
  const auto frame = [](std::int64_t size) {
    return frames::Frame{Tensor::allocate(DType::kF32, {size})};
  };
  const auto sizes_of = [](const measure::Ring& ring) {
    std::vector<std::int64_t> sizes;
    for (const auto& of : ring) sizes.push_back(of[0].dims()[0]);
    return sizes;
  };
  const measure::Ring unlike{frame(1), frame(50), frame(20), frame(9)};
  EXPECT_THAT(sizes_of(typical_first(unlike, 2)), ElementsAre(20, 1));
  EXPECT_THAT(sizes_of(typical_first(unlike, 9)), ElementsAre(20, 1, 50, 9));
  const measure::Ring alike{frame(3), frame(3)};
  EXPECT_EQ(typical_first(alike, 2)[0][0].data(), alike[0][0].data()) << "in their order";
  EXPECT_TRUE(typical_first({}, 2).empty());
}

TEST(RoomTest, WeightsThatATemporaryFolderHoldsInMemoryAreWarnedOf) {
  const TemporarySpace memory{100'000'000'000, true};
  const auto told = warning_of_store(10e9, 24'000'000'000, memory);
  ASSERT_TRUE(told);
  EXPECT_THAT(*told, HasSubstr("10 GB"));
  EXPECT_THAT(*told, HasSubstr("TMPDIR"));
  EXPECT_FALSE(warning_of_store(1e8, 24'000'000'000, memory)) << "little";
  EXPECT_FALSE(warning_of_store(10e9, 24'000'000'000, {100'000'000'000, false})) << "on a disk";
  EXPECT_FALSE(warning_of_store(10e9, std::nullopt, memory));
}

TEST(RoomTest, MemoryThatIsShortOfOneEngineIsWarnedOf) {
  constexpr std::uint64_t kMiB = 1 << 20;
  const auto told = warning_of_memory(100.0 * kMiB, 200 * kMiB);
  ASSERT_TRUE(told);
  EXPECT_THAT(*told, HasSubstr("200 MiB of memory are left"));
  EXPECT_THAT(*told, HasSubstr("needs about 264; where the system ends it, raise the limit"));
  EXPECT_FALSE(warning_of_memory(100.0 * kMiB, 300 * kMiB));
  EXPECT_FALSE(warning_of_memory(100.0 * kMiB, std::nullopt));
}

TEST(PlansTest, MemoryIsSharedWhereCopiesDoNotFit) {
  const auto graph = weighed({600, 400});
  EXPECT_EQ(memory_share(graph, 2, kUnlimited), kUnlimited);
  EXPECT_EQ(memory_share(graph, 2, 2 * 1024 * 1000), kUnlimited);
  EXPECT_EQ(memory_share(graph, 2, 1536 * 1000), 768 * 1000);
}

TEST(PlansTest, ReplicatesNoMoreThanTheHostHolds) {
  const auto graph = weighed({600, 400});
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1}}};
  const std::vector<double> seconds = {3, 1};
  const auto stages = [&](double kilobytes) {
    const auto planned = pipelined({graph, devices}, whole_cover(graph, {"one", {}}),
                                   {seconds, {}, {}, {1024 * kilobytes, {}}}, true, 5);
    return planned ? planned->split.stages.size() : 0;
  };
  EXPECT_EQ(stages(2000), 1U);  // On each device.
  EXPECT_EQ(stages(1999), 2U);  // One on each.
  EXPECT_EQ(stages(1000), 2U);
  EXPECT_EQ(stages(999), 0U);
}

TEST(PlansTest, AStageIsReplicatedWhereTheHostHoldsThatOneTwice) {
  const auto graph = weighed({600, 400});
  const std::vector<device::Device> devices = {
      {.host = {}, .cpus = {0}}, {.host = {}, .cpus = {1}}, {.host = {}, .cpus = {2}}};
  const std::vector<double> seconds = {1, 2};
  const auto planned = pipelined({graph, devices}, whole_cover(graph, {"one", {}}),
                                 {seconds, {}, {}, {1024 * 1400, {}}}, true, 5);
  ASSERT_TRUE(planned) << planned.error().message();
  EXPECT_NEAR(planned->period_seconds, 1, 1e-3);  // A third of 1,400 holds no 600.
}

TEST(PlansTest, ReplicasOfWhatSharesNeedNoMoreMemory) {
  const auto graph = weighed({66'000, 44'000});
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1}}};
  const std::vector<double> seconds = {3, 1};
  const auto stages = [&](const std::string& backend) {
    const auto planned = pipelined({graph, devices}, whole_cover(graph, {backend, {}}),
                                   {seconds, {}, {}, {1024 * 120e3, Copies({"sharing"})}}, true, 5);
    return planned ? planned->split.stages.size() : 0;
  };
  EXPECT_EQ(stages("sharing"), 1U);  // On each device.
  EXPECT_EQ(stages("one"), 2U);
}

TEST(CopiesTest, ReplicasShareWhatWasCompiledOnceWhereTheirBackendsCan) {
  const auto graph = weighed({66'000, 44'000});
  const Copies copies({"sharing"});
  const auto kilobytes = [&](const std::vector<device::Device>& devices, Cover cover) {
    return copies.bytes_of(graph, on_each(graph, cover, devices)) / 1024;
  };
  const device::Device a{.host = {}, .cpus = {0}}, b{.host = {}, .cpus = {1}};
  const device::Device pair{.host = {}, .cpus = {2, 3}}, other_pair{.host = {}, .cpus = {4, 5}};
  device::Device cuda;
  cuda.kind = device::Device::Kind::kCuda;
  const auto sharing = whole_cover(graph, {"sharing", {}});
  const Cover mixed = {{"sharing", {}, {graph::NodeId{0}}}, {"other", {}, {graph::NodeId{1}}}};
  EXPECT_EQ(kilobytes({a}, sharing), 110'000);
  EXPECT_EQ(kilobytes({a, b}, sharing), 110'000);
  EXPECT_EQ(kilobytes({a, b}, whole_cover(graph, {"other", {}})), 220'000);
  EXPECT_EQ(kilobytes({a, b}, mixed), 154'000);
  EXPECT_EQ(kilobytes({pair, other_pair}, sharing), 220'000) << "threads of their own";
  EXPECT_EQ(kilobytes({cuda}, sharing), 0) << "in its own memory";
  const auto small = weighed({600, 400});
  EXPECT_EQ(copies.bytes_of(small, on_each(small, whole_cover(small, {"sharing", {}}), {a, b})),
            1024 * 2000)
      << "not worth a lock";
}

TEST(PlansTest, ASlowKindOfDeviceGetsLess) {
  const auto graph = weighed({1, 1, 1, 1});
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1}}};
  const std::vector<double> seconds = {1, 1, 1, 1};
  const auto planned = pipelined({graph, devices, {1, 3}}, whole_cover(graph, {"one", {}}),
                                 {seconds, {}, {}}, false, 5);
  ASSERT_TRUE(planned) << planned.error().message();
  std::map<int, std::size_t> nodes;
  for (const auto& stage : planned->split.stages) {
    nodes[stage.devices.front().cpus.front()] += stage.nodes.size();
  }
  EXPECT_EQ(nodes, (std::map<int, std::size_t>{{0, 3}, {1, 1}}));
  EXPECT_NEAR(planned->period_seconds, 3, 0.01);
}

TEST(PlansTest, AStateIsKeptOnTheFastestDevice) {
  const auto graph = looped();
  const std::vector<device::Device> devices = {{.host = {}, .cpus = {0}},
                                               {.host = {}, .cpus = {1}}};
  const std::vector<double> seconds = {1, 1, 1, 1};
  const auto loops = state_loops(graph, {{"t", "s", ""}});
  const auto planned = pipelined({graph, devices, {1, 0.25}}, whole_cover(graph, {"one", {}}),
                                 {seconds, {}, loops}, true, 5);
  ASSERT_TRUE(planned) << planned.error().message();
  for (const auto& stage : planned->split.stages) {
    if (std::ranges::find(stage.nodes, graph::NodeId{1}) == stage.nodes.end()) continue;
    EXPECT_EQ(stage.devices, (std::vector{devices[1]}));
  }
}

TEST(OutcomeTest, ComesBackFromItsText) {
  Outcome outcome;
  outcome.budget_seconds = 25;
  outcome.most_parts = 7;
  outcome.minimum_seconds = 6.5;
  outcome.settled = true;
  outcome.stale = {"it was passed", "onnxruntime"};
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
  EXPECT_EQ(again->minimum_seconds, 6.5);
  EXPECT_TRUE(again->settled);
  EXPECT_EQ(again->stale.way, "onnxruntime");
  EXPECT_EQ(again->contestant.split.stages[0].devices[1].cpus, (std::vector<int>{2, 3}));
  EXPECT_EQ(again->contestant.split.stages[0].parts[0].options.at("key"), "value");
  EXPECT_FALSE(outcome_from_json("{}"));
}

/// Frames one after the other at one worker, a millisecond each, `pause_ms` before frame `at`.
std::vector<pipeline::WorkerSpans> steady_worker(std::uint64_t frames, std::uint64_t at,
                                                 std::int64_t pause_ms) {
  pipeline::WorkerSpans worker{.stage = "stage0", .replica = 1, .device = "cpu:3"};
  for (std::uint64_t frame = 0; frame < frames; ++frame) {
    const auto begin = static_cast<std::int64_t>(frame) + (frame >= at ? pause_ms : 0);
    worker.kept.push_back(
        {frame, (begin - 1) * 1'000'000, begin * 1'000'000, (begin + 1) * 1'000'000});
  }
  return {worker};
}

TEST(SteadyTraceTest, HoldsWholePeriodsBeforeThePipelineRanEmpty) {
  const auto trace = steady_trace(steady_worker(100, 0, 0), 4, 1000);
  EXPECT_DOUBLE_EQ(trace.seconds, 0.024);
  EXPECT_EQ(trace.frames, 24);
  ASSERT_EQ(trace.lanes.size(), 1U);
  EXPECT_EQ(trace.lanes[0].name, "stage0/1 on cpu:3");
  ASSERT_EQ(trace.lanes[0].spans.size(), 24U);
  EXPECT_EQ(trace.lanes[0].spans.back().frame, 95U);  // Frames 96 to 99 are the last 4.
  EXPECT_DOUBLE_EQ(trace.lanes[0].spans.front().start, 0);
  EXPECT_DOUBLE_EQ(trace.lanes[0].spans.front().ready, -0.001);
}

/// 200 frames of a millisecond each, and so many nanoseconds of pause behind every `frames`.
std::vector<pipeline::WorkerSpans> bursts(std::uint64_t frames, std::int64_t pause_ns) {
  auto workers = steady_worker(200, 0, 0);
  for (auto& span : workers[0].kept) {
    const auto later = static_cast<std::int64_t>(span.frame / frames) * pause_ns;
    span.ready_ns += later;
    span.start_ns += later;
    span.end_ns += later;
  }
  return workers;
}

TEST(SteadyTraceTest, HasTheRateThatWasMeasured) {
  // 20 ms and then 20 without a frame: 500 frames a second.
  const auto workers = bursts(20, 20'000'000);
  const auto trace = steady_trace(workers, 4, 500);
  EXPECT_NEAR(trace.frames / trace.seconds, 500, 50);
  EXPECT_GT(trace.frames, 12);
}

TEST(SteadyTraceTest, LeavesOutTheTurnsOfOthers) {
  // Ten frames, then the others' turn of 50 ms: no 24 frames come without one.
  const auto workers = bursts(10, 50'000'000);
  const auto trace = steady_trace(workers, 4, 1000);
  EXPECT_EQ(trace.frames, 9);
  EXPECT_DOUBLE_EQ(trace.seconds, 0.009);
}

TEST(SteadyTraceTest, TakesTheNearestWhereNoneHasTheRate) {
  const auto trace = steady_trace(steady_worker(100, 0, 0), 4, 17);
  EXPECT_EQ(trace.frames, 24);
}

TEST(SteadyTraceTest, IsEmptyWhereTooFewFramesCame) {
  EXPECT_TRUE(steady_trace({}, 1, 1000).lanes.empty());
  EXPECT_TRUE(steady_trace(steady_worker(5, 0, 0), 4, 1000).lanes.empty());
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

TEST(QuestionTest, AnotherMachineOfTheSameProcessorIsAnotherQuestion) {
  const auto graph = weighed({1, 1});
  const Options options;
  const backend::Registry backends;
  const auto asked = [&](const device::Topology& topology) {
    return question_of(graph, options, device::usual_devices(topology), {}, backends, {}, topology)
        .plan;
  };
  auto cores = usable_machine("numa:1 l3:1 core:2 pu:1");
  const auto first = asked(cores);
  EXPECT_EQ(asked(cores), first);
  EXPECT_NE(asked(usable_machine("numa:1 l3:1 core:1 pu:2")), first) << "siblings of one core";
  EXPECT_NE(asked(usable_machine("numa:2 l3:1 core:1 pu:1")), first) << "two nodes";
  cores.memory_bytes += std::size_t{4} << 30U;
  EXPECT_NE(asked(cores), first) << "more memory";
}

}  // namespace
}  // namespace penstock::tune
