// Problems and splits read from small and public workloads, and a message for each wrong field.
#include "penstock/planner/workload/workload.h"

#include <cstdlib>
#include <fstream>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/problem/instance.h"

namespace penstock::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string node(int id, const std::string& more = "") {
  return concat(R"({"id": )", id, R"(, "supportedOnFpga": 1, "cpuLatency": )", 10 * (id + 1),
                R"(, "fpgaLatency": )", id + 1, R"(, "isBackwardNode": 0, "size": )",
                100 * (id + 1), more, "}");
}

std::string edge(int from, int to, double cost) {
  return concat(R"({"sourceId": )", from, R"(, "destId": )", to, R"(, "cost": )", cost,
                R"(, "size": 8})");
}

std::string workload(const std::vector<std::string>& nodes, const std::vector<std::string>& edges) {
  return concat(R"({"maxSizePerFPGA": 1000, "maxFPGAs": 2, "maxCPUs": 1, "nodes": [)",
                join(nodes, ","), R"(], "edges": [)", join(edges, ","), "]}");
}

std::string chain_file() {
  return workload({node(0), node(1), node(2)}, {edge(0, 1, 0.5), edge(1, 2, 2)});
}

std::string error_of(const std::string& text, const WorkloadOptions& options = {}) {
  const auto problem = parse_workload(text, options);
  return problem ? "" : problem.error().message();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

TEST(WorkloadTest, MakesTypesGroupsValuesAndOrder) {
  const auto problem = parse_workload(chain_file(), {});
  ASSERT_TRUE(problem) << problem.error().message();
  ASSERT_EQ(problem->types.size(), 2);
  EXPECT_THAT(problem->types[0].devices, ElementsAre("accelerator:0", "accelerator:1"));
  EXPECT_EQ(problem->types[0].memory, 1000);
  EXPECT_TRUE(problem->types[0].pays_transfers);
  EXPECT_THAT(problem->types[1].devices, ElementsAre("cpu:0"));
  EXPECT_EQ(problem->types[1].memory, kInfinite);
  EXPECT_FALSE(problem->types[1].pays_transfers);
  ASSERT_EQ(problem->groups.size(), 3);
  EXPECT_THAT(problem->groups[1].nodes, ElementsAre(1));
  EXPECT_THAT(problem->groups[1].time, ElementsAre(2, 20));
  EXPECT_EQ(problem->groups[1].memory, 200);
  ASSERT_EQ(problem->values.size(), 2);
  EXPECT_EQ(problem->values[0].transfer_time, 0.5);
  EXPECT_THAT(problem->values[1].consumers, ElementsAre(2));
  EXPECT_EQ(problem->order, (std::vector<std::pair<int, int>>{{0, 1}, {1, 2}}));
}

TEST(WorkloadTest, MayNameTypesOfItsOwn) {
  const std::string types = R"({"deviceTypes": [{"name": "fast", "count": 2, "size": 300},
      {"name": "none", "count": 0}, {"name": "slow", "count": 1}],
      "nodes": [{"id": 0, "size": 8, "latencies": [1, 9, 2]},
                {"id": 1, "size": 8, "latencies": [null, 9, 4]}],
      "edges": [{"sourceId": 0, "destId": 1, "cost": 0.5}]})";
  const auto problem = parse_workload(types, {});
  ASSERT_TRUE(problem) << problem.error().message();
  ASSERT_EQ(problem->types.size(), 2);
  EXPECT_THAT(problem->types[0].devices, ElementsAre("fast:0", "fast:1"));
  EXPECT_EQ(problem->types[0].memory, 300);
  EXPECT_EQ(problem->types[1].memory, kInfinite);
  EXPECT_THAT(problem->groups[0].time, ElementsAre(1, 2));
  EXPECT_THAT(problem->groups[1].time, ElementsAre(kInfinite, 4));
  const auto split = parse_workload_split(
      R"({"fpgas": [{"nodes": [0]}, {"nodes": []}, {"nodes": [1]}]})", *problem);
  ASSERT_TRUE(split) << split.error().message();
  EXPECT_THAT(split->stages.back().devices, ElementsAre(2));
  EXPECT_THAT(error_of(replaced(types, "[null, 9, 4]", "[null, 9]")),
              HasSubstr("node 1: 'latencies': expected 3 times"));
  EXPECT_THAT(error_of(replaced(types, "[null, 9, 4]", "[null, -9, 4]")),
              HasSubstr("node 1: 'latencies[1]': expected a finite number"));
  EXPECT_THAT(error_of(replaced(types, "\"count\": 2", "\"count\": -2")),
              HasSubstr("deviceTypes[0]: 'count'"));
  EXPECT_THAT(error_of(types, {.devices = 3}), HasSubstr("names its devices in 'deviceTypes'"));
}

TEST(WorkloadTest, TypesMayHaveModes) {
  const std::string types = R"({"deviceTypes": [
      {"name": "none", "count": 0, "modes": [{"name": "x"}, {"name": "y"}]},
      {"name": "fast", "count": 1, "modes": [{"name": "exact"}, {"name": "quick", "launch": 0.5}]},
      {"name": "slow", "count": 2}],
      "nodes": [{"id": 0, "size": 8, "latencies": [7, 7, 1, null, 3]}], "edges": []})";
  const auto problem = parse_workload(types, {});
  ASSERT_TRUE(problem) << problem.error().message();
  ASSERT_EQ(problem->modes.size(), 3);
  EXPECT_EQ(problem->modes[1].name, "quick");
  EXPECT_EQ(problem->modes[1].type, 0);
  EXPECT_EQ(problem->modes[1].launch, 0.5);
  EXPECT_EQ(problem->modes[2].name, "slow");
  EXPECT_EQ(problem->modes[2].type, 1);
  EXPECT_THAT(problem->groups[0].time, ElementsAre(1, kInfinite, 3));
  EXPECT_THAT(error_of(replaced(types, "null, 3", "null")),
              HasSubstr("expected 5 times, one for each of 'deviceTypes' and its modes, found 4"));
  EXPECT_THAT(error_of(replaced(types, "0.5", "-1")),
              HasSubstr("deviceTypes[1]: modes[1]: 'launch': expected 0 or more"));
  EXPECT_THAT(error_of(replaced(types, R"({"name": "exact"})", "{}")),
              HasSubstr("deviceTypes[1]: modes[0]: 'name' is missing"));
}

TEST(WorkloadTest, OptionsReplaceWhatTheFileSays) {
  WorkloadOptions options;
  options.devices = 3;
  options.cpus = 0;
  options.memory = 400;
  options.communication_factor = 10;
  const auto problem = parse_workload(chain_file(), options);
  ASSERT_TRUE(problem) << problem.error().message();
  ASSERT_EQ(problem->types.size(), 1);
  EXPECT_EQ(problem->types[0].devices.size(), 3);
  EXPECT_EQ(problem->types[0].memory, 400);
  EXPECT_EQ(problem->values[1].transfer_time, 20);
}

TEST(WorkloadTest, JoinsAColourClassAndWhatLiesBetween) {
  const auto text =
      workload({node(0, R"(, "colorClass": 7)"), node(1), node(2, R"(, "colorClass": 7)"), node(3)},
               {edge(0, 1, 1), edge(1, 2, 1), edge(0, 3, 1)});
  const auto problem = parse_workload(text, {});
  ASSERT_TRUE(problem) << problem.error().message();
  ASSERT_EQ(problem->groups.size(), 2);
  EXPECT_THAT(problem->groups[0].nodes, ElementsAre(0, 1, 2));
  EXPECT_THAT(problem->groups[0].time, ElementsAre(6, 60));
  EXPECT_EQ(problem->values.size(), 1);
}

TEST(WorkloadTest, OfSeveralStagesNodesOfAColourShareTheDeviceOnly) {
  const auto text =
      workload({node(0, R"(, "colorClass": 7)"), node(1), node(2, R"(, "colorClass": 7)"), node(3)},
               {edge(0, 1, 1), edge(1, 2, 1), edge(0, 3, 1)});
  const auto problem = parse_workload(text, {.one_stage = false});
  ASSERT_TRUE(problem) << problem.error().message();
  EXPECT_EQ(problem->groups.size(), 4U);
  ASSERT_EQ(problem->colocated.size(), 1U);
  std::vector<int> ids;
  for (const int group : problem->colocated[0]) {
    ids.push_back(problem->groups[static_cast<std::size_t>(group)].nodes.front());
  }
  EXPECT_THAT(ids, ElementsAre(0, 2));
}

TEST(WorkloadTest, JoinsIdleNodesWithTheOneNodeThatTheyHangOnWhereMemoryMayBind) {
  const auto idle = [](int id) {
    return concat(R"({"id": )", id,
                  R"(, "supportedOnFpga": 1, "cpuLatency": 0, "fpgaLatency": 0, )",
                  R"("isBackwardNode": 0, "size": 100})");
  };
  // 3 and then 2 hang on 1; 4 joins two.
  const auto text =
      workload({node(0), node(1), idle(2), idle(3), idle(4)},
               {edge(0, 1, 1), edge(1, 2, 1), edge(2, 3, 2), edge(0, 4, 1), edge(1, 4, 1)});
  const auto problem = parse_workload(text, {.memory = 599});
  ASSERT_TRUE(problem) << problem.error().message();
  std::vector<std::vector<int>> nodes;
  for (const auto& group : problem->groups) nodes.push_back(group.nodes);
  EXPECT_THAT(
      nodes, ::testing::UnorderedElementsAre(ElementsAre(0), ElementsAre(1, 2, 3), ElementsAre(4)));
  EXPECT_THAT(problem->notes, ElementsAre(HasSubstr("2 node(s) without time stay with")));
  for (const auto& free : {WorkloadOptions{}, WorkloadOptions{.memory = 599, .join_idle = false},
                           WorkloadOptions{.memory = 599, .one_stage = false}}) {
    const auto apart = parse_workload(text, free);
    ASSERT_TRUE(apart) << apart.error().message();
    EXPECT_EQ(apart->groups.size(), 5U);
    EXPECT_TRUE(apart->notes.empty());
  }
}

TEST(WorkloadTest, KeepsIdleNodesApartThatFitNoAcceleratorWithTheirNeighbour) {
  const std::string idle = R"({"id": 1, "supportedOnFpga": 1, "cpuLatency": 0, "fpgaLatency": 0, )"
                           R"("isBackwardNode": 0, "size": 950})";
  const auto problem = parse_workload(workload({node(0), idle}, {edge(0, 1, 1)}), {});
  ASSERT_TRUE(problem) << problem.error().message();
  EXPECT_EQ(problem->groups.size(), 2U);
}

TEST(WorkloadTest, GroupsTheSameWhateverTheUnitOfTime) {
  const auto text = chain_file();
  const auto small = replaced(text, R"("fpgaLatency": 2)", R"("fpgaLatency": 2e-9)");
  const auto smaller = replaced(small, R"("cpuLatency": 20)", R"("cpuLatency": 2e-8)");
  const auto problem = parse_workload(smaller, {});
  ASSERT_TRUE(problem) << problem.error().message();
  EXPECT_EQ(problem->groups.size(), 3U);
}

TEST(WorkloadTest, OrdersATrainingGraphByItsForwardNodes) {
  const std::string back = R"(, "colorClass": )";
  auto backward = [&](int id, int colour) {
    return replaced(node(id, back + std::to_string(colour)), R"("isBackwardNode": 0)",
                    R"("isBackwardNode": true)");
  };
  const auto text =
      workload({node(0, back + "0"), node(1, back + "1"), backward(2, 1), backward(3, 0)},
               {edge(0, 1, 1), edge(1, 2, 1), edge(2, 3, 4)});
  for (const bool one_stage : {true, false}) {
    const auto problem = parse_workload(text, {.one_stage = one_stage});
    ASSERT_TRUE(problem) << problem.error().message();
    EXPECT_EQ(problem->groups.size(), 2);
    EXPECT_EQ(problem->order, (std::vector<std::pair<int, int>>{{0, 1}}));
    ASSERT_EQ(problem->values.size(), 2);  // Forth and back.
    EXPECT_EQ(problem->values[1].producer, 1);
    EXPECT_EQ(problem->values[1].transfer_time, 4);
  }
}

TEST(WorkloadTest, ForLatencyTheCpuIsUnlimitedAndNodesOfAColourAreColocated) {
  const std::string red = R"(, "colorClass": 7)";
  WorkloadOptions options;
  options.goal = Goal::kLatency;
  const auto text = workload({node(0, red), node(1), node(2, red)}, {edge(0, 2, 1), edge(1, 2, 1)});
  const auto problem = parse_workload(text, options);
  ASSERT_TRUE(problem) << problem.error().message();
  EXPECT_TRUE(problem->types[1].unlimited);
  ASSERT_EQ(problem->groups.size(), 3);
  const auto node_of = [&](int group) { return problem->groups[static_cast<size_t>(group)].nodes; };
  ASSERT_EQ(problem->colocated.size(), 1);
  EXPECT_THAT(node_of(problem->colocated[0][0]), ElementsAre(0));
  EXPECT_THAT(node_of(problem->colocated[0][1]), ElementsAre(2));
}

TEST(WorkloadTest, NamesWhatIsWrongInAField) {
  const auto text = chain_file();
  EXPECT_THAT(error_of("{"), HasSubstr("not JSON: at byte 2"));
  EXPECT_THAT(error_of("[]"), HasSubstr("the workload: expected an object"));
  EXPECT_THAT(error_of(replaced(text, R"("fpgaLatency": 2)", R"("fpgaLatency": NaN)")),
              HasSubstr("near '"));
  EXPECT_EQ(error_of(replaced(text, R"("fpgaLatency": 2)", R"("fpgaLatency": -2)")),
            "node 1: 'fpgaLatency': expected 0 or more, found -2");
  EXPECT_EQ(error_of(replaced(text, R"("fpgaLatency": 2)", R"("fpgaLatency": null)")),
            "node 1: 'fpgaLatency': expected a finite number, found null");
  EXPECT_THAT(error_of(replaced(text, R"("fpgaLatency": 2)", R"("fpgaLatency": 1e999)")),
              HasSubstr("1e999"));
  EXPECT_EQ(error_of(replaced(text, R"("size": 200)", R"("bytes": 200)")),
            "node 1: 'size' is missing");
  EXPECT_EQ(error_of(replaced(text, R"("id": 1)", R"("id": "one")")),
            "nodes[1]: 'id': expected a whole number from -2147483647 to 2147483647, found "
            "\"one\"");
  EXPECT_EQ(error_of(replaced(text, R"("maxFPGAs": 2)", R"("maxFPGAs": -1)")),
            "the workload: 'maxFPGAs': expected a whole number from 0 to 4096, found -1");
  EXPECT_EQ(error_of(replaced(text, R"("cost": 2)", R"("cost": "much")")),
            "edges[1] (1 to 2): 'cost': expected a finite number, found \"much\"");
}

TEST(WorkloadTest, NamesWhatIsWrongInTheGraph) {
  EXPECT_EQ(error_of(workload({}, {})), "the workload: 'nodes' is empty");
  EXPECT_EQ(error_of(workload({node(0), node(0)}, {})), "node 0: its id is used twice");
  EXPECT_EQ(error_of(workload({node(0)}, {edge(0, 9, 1)})),
            "edges[0] (0 to 9): there is no node 9");
  EXPECT_EQ(error_of(workload({node(0), node(1)}, {edge(0, 1, 1), edge(1, 0, 1)})),
            "the graph is cyclic: node 0 needs its own result through 2 node(s)");
  EXPECT_EQ(error_of(workload({node(0), node(1), node(2)}, {edge(0, 1, 1), edge(0, 2, 3)})),
            "node 0: its out-edges differ in 'cost', 1 and 3, though they carry one tensor");
}

TEST(WorkloadTest, NamesWhatNoDeviceCanTake) {
  WorkloadOptions options;
  options.cpus = 0;
  const auto unsupported =
      replaced(chain_file(), R"("supportedOnFpga": 1, "cpuLatency": 20)",
               R"("name": "swish", "supportedOnFpga": false, "cpuLatency": 20)");
  EXPECT_EQ(error_of(unsupported, options),
            "node 1 ('swish'): no accelerator supports it and there is no CPU");
  EXPECT_EQ(error_of(unsupported), "");
  options.memory = 299;
  EXPECT_THAT(error_of(chain_file(), options),
              HasSubstr("group 'node 2': needs 300 bytes, more than any device"));
  options.devices = 0;
  EXPECT_EQ(error_of(chain_file(), options), "there is no device to plan for");
}

TEST(WorkloadTest, NamesAWrongOption) {
  WorkloadOptions options;
  options.communication_factor = -1;
  EXPECT_THAT(error_of(chain_file(), options),
              HasSubstr("expected a communication factor of 0 or more"));
  options = {};
  options.memory = -5;
  EXPECT_THAT(error_of(chain_file(), options), HasSubstr("expected memory of 0 or more bytes"));
  EXPECT_EQ(read_workload("/nowhere/at/all.json", {}).error().code, Code::kNotFound);
}

TEST(WorkloadTest, ReadsDeviceSetsAsASplit) {
  const auto problem = parse_workload(chain_file(), {});
  ASSERT_TRUE(problem);
  const auto split = parse_workload_split(
      R"({"fpgas": [{"nodes": [2]}, {"nodes": [0]}], "cpus": [{"load": 1, "nodes": [1]}]})",
      *problem);
  ASSERT_TRUE(split) << split.error().message();
  EXPECT_EQ(*split, (Split{{{{0}, 0, {1}}, {{1}, 1, {2}}, {{2}, 0, {0}}}}));
  EXPECT_EQ(evaluate(*problem, *split).violations.size(), 0);
}

TEST(WorkloadTest, NamesWhatIsWrongInDeviceSets) {
  const auto problem = parse_workload(chain_file(), {});
  ASSERT_TRUE(problem);
  const auto error = [&](const std::string& text) {
    return parse_workload_split(text, *problem).error().message();
  };
  EXPECT_EQ(error(R"({"fpgas": [{"nodes": [0, 1]}]})"), "the split: node 2 is in no set");
  EXPECT_EQ(error(R"({"fpgas": [{"nodes": [0, 7]}]})"), "the split: there is no node 7");
  EXPECT_THAT(error(R"({"fpgas": [{"nodes": [0, 1, 2]}, {"nodes": [1]}]})"),
              HasSubstr("node 1, or one that must stay with it, is in two sets"));
  EXPECT_EQ(error(R"({"fpgas": [{"nodes": [0]}, {"nodes": [1]}, {"nodes": [2]}]})"),
            "the split: uses more than the 2 devices of type 'accelerator'");
  EXPECT_EQ(error(R"({"fpgas": [{"nodes": ["a"]}]})"),
            "fpgas[0]: expected node ids, whole numbers up to 2147483647, found string");
}

/// The folder of the public workloads, or nothing where it is not here.
std::optional<std::filesystem::path> public_workloads() {
  const char* folder = std::getenv("PENSTOCK_TEST_WORKLOADS");
  if (folder == nullptr || !std::filesystem::is_directory(folder)) return std::nullopt;
  return folder;
}

TEST(WorkloadTest, ReadsEveryPublicWorkload) {
  const auto folder = public_workloads();
  if (!folder) GTEST_SKIP() << "PENSTOCK_TEST_WORKLOADS names no folder of workloads";
  int read = 0;
  for (const char* kind : {"throughput", "latency"}) {
    for (const auto& file : std::filesystem::recursive_directory_iterator(*folder / kind)) {
      if (file.path().extension() != ".json") continue;
      const auto problem = read_workload(file.path(), {});
      ASSERT_TRUE(problem) << problem.error().message();
      EXPECT_TRUE(make_instance(*problem, Partner::kLowest)) << file.path();
      ++read;
    }
  }
  EXPECT_GT(read, 0);
}

TEST(WorkloadTest, JudgesTheExpertsAsPublished) {
  const auto folder = public_workloads();
  if (!folder) GTEST_SKIP() << "PENSTOCK_TEST_WORKLOADS names no folder of workloads";
  struct Published {
    const char* workload;
    const char* expert;
    double period;
  };
  // An inference expert serves for training too: backward nodes follow their colour class.
  for (const auto& [workload, expert, period] :
       {Published{"bert24_inference", "bert24_inference", 20.084},
        Published{"gnmt_inference", "gnmt_inference", 46.2085},
        Published{"resnet50_inference", "resnet50_inference", 43.9183},
        Published{"bert24_training", "bert24_training", 49.4049},
        Published{"resnet50_training", "resnet50_inference", 112.108}}) {
    const auto problem =
        read_workload(*folder / "throughput/LayerGraphs" / concat(workload, ".json"), {});
    ASSERT_TRUE(problem) << problem.error().message();
    std::ifstream in(*folder / "human-experts" / concat(expert, "_expert.json"));
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const auto split = parse_workload_split(text, *problem);
    ASSERT_TRUE(split) << split.error().message();
    EXPECT_NEAR(evaluate(*problem, *split).period, period, 1e-5 * period) << workload;
  }
}

}  // namespace
}  // namespace penstock::planner
