// Edges, states and stream options of small plans, and the sentences about impossible ones.
#include "penstock/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/plan/plan_json.h"
#include "penstock/plan/stream_options.h"
#include "penstock/plan/test_plans.h"

namespace penstock::plan {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

MATCHER_P3(EdgeIs, from, to, tensors, "") {
  return arg.from == from && arg.to == std::vector<int>(to) &&
         arg.tensors == std::vector<std::string>(tensors);
}
using Ends = std::vector<int>;
using Names = std::vector<std::string>;

TEST(ConnectTest, LinksAChain) {
  EXPECT_THAT(chain().edges, ElementsAre(EdgeIs(kPipelineInput, Ends{0}, Names{"x"}),
                                         EdgeIs(0, Ends{1}, Names{"t"}),
                                         EdgeIs(1, Ends{kPipelineOutput}, Names{"y"})));
}

TEST(ConnectTest, GivesADiamondOneEdgeWithTwoReaders) {
  const auto plan = finish({"x"}, {"y"},
                           {stage(0, {"x"}, {"t"}), stage(1, {"t"}, {"l"}), stage(2, {"t"}, {"r"}),
                            stage(3, {"l", "r"}, {"y"})});
  EXPECT_THAT(violations(plan), IsEmpty());
  EXPECT_THAT(
      plan.edges,
      ElementsAre(EdgeIs(kPipelineInput, Ends{0}, Names{"x"}), EdgeIs(0, (Ends{1, 2}), Names{"t"}),
                  EdgeIs(1, Ends{3}, Names{"l"}), EdgeIs(2, Ends{3}, Names{"r"}),
                  EdgeIs(3, Ends{kPipelineOutput}, Names{"y"})));
}

TEST(ConnectTest, KeepsTensorsWithTheSameReadersTogether) {
  const auto plan = finish({"x"}, {"a", "y"},
                           {stage(0, {"x"}, {"a", "b", "c"}), stage(1, {"a", "b", "c"}, {"y"})});
  EXPECT_THAT(violations(plan), IsEmpty());
  EXPECT_THAT(plan.edges, ElementsAre(EdgeIs(kPipelineInput, Ends{0}, Names{"x"}),
                                      EdgeIs(0, (Ends{1, kPipelineOutput}), Names{"a"}),
                                      EdgeIs(0, Ends{1}, (Names{"b", "c"})),
                                      EdgeIs(1, Ends{kPipelineOutput}, Names{"y"})));
}

TEST(ConnectTest, LetsAnInputPassThroughAndLeavesAnUnreadOneOut) {
  const auto plan = finish({"x", "unread"}, {"x", "y"}, {stage(0, {"x"}, {"y"})});
  EXPECT_THAT(violations(plan), IsEmpty());
  EXPECT_THAT(plan.edges,
              ElementsAre(EdgeIs(kPipelineInput, (Ends{0, kPipelineOutput}), Names{"x"}),
                          EdgeIs(0, Ends{kPipelineOutput}, Names{"y"})));
}

TEST(ConnectTest, CarriesAnOutputThatStandsTwiceOnce) {
  const auto plan = finish({"x"}, {"y", "y"}, {stage(0, {"x"}, {"y"})});
  EXPECT_THAT(violations(plan), IsEmpty());
  EXPECT_THAT(plan.edges.back(), EdgeIs(0, Ends{kPipelineOutput}, Names{"y"}));
}

TEST(StateTest, AnOutputFedBackIsNeitherInputNorOutput) {
  auto plan = finish({"x", "s"}, {"y", "t"}, {stage(0, {"x", "s"}, {"y", "t"})});
  ASSERT_TRUE(add_state(plan, {"t", "s", ""}));
  EXPECT_THAT(plan.edges, ElementsAre(EdgeIs(kPipelineInput, Ends{0}, Names{"x"}),
                                      EdgeIs(0, Ends{kPipelineOutput}, Names{"y"})));
  EXPECT_THAT(violations(plan), IsEmpty());
  plan = finish({"x", "s"}, {"y", "t"}, {stage(0, {"x", "s"}, {"y", "t"})});
  ASSERT_TRUE(add_state(plan, {"t", "s", ""}, true));
  EXPECT_THAT(plan.edges.back(), EdgeIs(0, Ends{kPipelineOutput}, (Names{"y", "t"})));
}

TEST(StateTest, NamesWhatIsNotThere) {
  auto plan = chain();
  const auto message = [&](const StateEdge& state) {
    return add_state(plan, state).error().message();
  };
  EXPECT_EQ(message({"y", "cache_in", ""}),
            "state 'y' -> 'cache_in': no input 'cache_in'; the inputs are 'x'");
  EXPECT_EQ(message({"y", "xx", ""}), "state 'y' -> 'xx': no input 'xx'; did you mean 'x'?");
  EXPECT_EQ(message({"cache_out", "x", ""}),
            "state 'cache_out' -> 'x': no output 'cache_out'; the outputs are 'y'");
  EXPECT_EQ(message({"yy", "x", ""}), "state 'yy' -> 'x': no output 'yy'; did you mean 'y'?");
  EXPECT_EQ(
      message({"x", "y", ""}),
      "state 'x' -> 'y': the ends are swapped: expected OUT=IN, found an input and an output; "
      "give y=x (--state)");
  EXPECT_EQ(message({"y", "x:0.5", ""}),
            "state 'y' -> 'x:0.5': expected a file of the first value (.npy) behind 'x:', found "
            "'0.5'; write one (numpy.save), or leave it out for zeros (--state)");
}

TEST(StateTest, RefusesAnOutputThatIsAnInput) {
  // A delay by one frame, and what the state was.
  auto plan = finish({"x", "s"}, {"y", "x", "s"}, {stage(0, {"x", "s"}, {"y"})});
  EXPECT_EQ(add_state(plan, {"x", "s", ""}).error().message(),
            "state 'x' -> 's': 'x' is an input and an output in one, which nothing computes: "
            "expected an output of its own; add an Identity node to the model from input 'x' to a "
            "new output, in place of output 'x' (--state)");
  EXPECT_THAT(add_state(plan, {"y", "s", ""}).error().message(),
              HasSubstr("state 'y' -> 's': 's' is an input and an output in one"));
}

TEST(StateTest, RefusesWhatIsTakenAlready) {
  const auto fresh = [] {
    return finish({"x", "s", "r"}, {"y", "t", "u"}, {stage(0, {"x", "s", "r"}, {"y", "t", "u"})});
  };
  auto plan = fresh();
  ASSERT_TRUE(add_state(plan, {"t", "s", ""}));
  EXPECT_EQ(
      add_state(plan, {"t", "r", ""}).error().message(),
      "state 't' -> 'r': output 't' is the state of input 's' already; an output is one state");
  plan = fresh();
  ASSERT_TRUE(add_state(plan, {"t", "s", ""}));
  EXPECT_EQ(add_state(plan, {"u", "s", ""}).error().message(),
            "state 'u' -> 's': 's' reads 't' already; an input reads one state");
  plan = fresh();
  plan.bound_inputs.push_back({.name = "h", .type = plan.inputs[0].type, .value = "0", .file = ""});
  EXPECT_EQ(add_state(plan, {"t", "h", ""}).error().message(),
            "state 't' -> 'h': input 'h' is bound to a constant, so that no frame gives it another "
            "value; leave out the constant or the state");
}

TEST(ViolationsTest, HoldsItemsToBoundedFirstDimensions) {
  auto plan = chain();
  plan.stages[0].each = {"x", "z"};
  plan.inputs[0].type.dims = {{Dim::kOpen, "n", 7}, {Dim::kOpen, "m", 3}};
  EXPECT_THAT(violations(plan),
              ElementsAre("stage 'stage0': runs for each item of 'z', which it does not read",
                          "stage 'stage0': 'x' holds items: expected a bounded first dimension, "
                          "all others fixed, found f32[n<=7,m<=3]"));
}

TEST(ViolationsTest, RefusesOptionsThatNameAPlaceOnTheDisk) {
  auto plan = chain();
  auto& partition = plan.stages[0].partitions[0];
  partition.backend = "openvino";
  partition.options = {{"NUM_STREAMS", "1"}};
  EXPECT_THAT(violations(plan), IsEmpty());
  partition.options = {{"CACHE_DIR", "/tmp/elsewhere"}};
  EXPECT_THAT(violations(plan),
              ElementsAre(AllOf(HasSubstr("stage 'stage0', partition 0: option 'CACHE_DIR' names"),
                                HasSubstr("--backend-option openvino:CACHE_DIR=..."))));
  for (const auto& [key, value] : std::map<std::string, std::string>{
           {"session.model_external_initializers_file_folder_path", "/tmp"},
           {"ep.context_enable", "1"},
           {"extension_library", "x"},
           {"DIR", "x"},
           {"key", "../x"},
           {"other", ".."}}) {
    partition.options = {{key, value}};
    EXPECT_THAT(violations(plan), SizeIs(1)) << key;
  }
  partition.options = {{"DIRECTION", "forward"}, {"NUM_STREAMS", "1.5"}};
  EXPECT_THAT(violations(plan), IsEmpty());
}

TEST(ViolationsTest, AcceptsSkipsOverSeveralStages) {
  EXPECT_THAT(violations(finish({"x"}, {"y"},
                                {stage(0, {"x"}, {"a", "skip"}), stage(1, {"a"}, {"b"}),
                                 stage(2, {"b"}, {"c"}), stage(3, {"c", "skip", "x"}, {"y"})})),
              IsEmpty());
}

TEST(ViolationsTest, AcceptsRandomPlans) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    EXPECT_THAT(violations(RandomPlan(seed).make()), IsEmpty()) << "seed " << seed;
  }
}

// cpu:0-3, cpu:4-7, ... of a machine of 256.
TEST(ViolationsTest, AcceptsManyStagesOnDevicesOfTheirOwn) {
  std::vector<Stage> stages;
  for (int i = 0; i < 64; ++i) {
    stages.push_back(stage(i, {concat("t", i)}, {concat("t", i + 1)}));
    stages.back().devices = {{.host = {}, .cpus = {4 * i, 4 * i + 1, 4 * i + 2, 4 * i + 3}}};
  }
  auto plan = finish({"t0"}, {"t64"}, stages);
  EXPECT_EQ(plan.edges.size(), 65U);
  EXPECT_TRUE(validate(plan));
  const auto read = from_json(to_json(plan));
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(to_json(*read), to_json(plan));
  EXPECT_EQ(device::to_string(read->stages[63].devices[0]), "cpu:252-255");
}

TEST(ViolationsTest, ListsEveryOne) {
  auto plan = chain();
  plan.stages[0].name = "stage1";
  plan.stages[1].devices.clear();
  plan.edges[1].capacity = -1;
  EXPECT_THAT(violations(plan),
              ElementsAre("stage 'stage1' is listed twice",
                          "stage 'stage1': expected a device for each replica, found none",
                          "edges[1]: capacity -1 is negative"));
  EXPECT_EQ(validate(plan).error().code, Code::kInvalidArgument);
  EXPECT_THAT(validate(plan).error().message(),
              HasSubstr("plan: stage 'stage1' is listed twice; "));
}

TEST(ViolationsTest, ShowsThreeAndCountsTheRest) {
  EXPECT_THAT(validate(Plan{}).error().message(), "plan: no stages: expected at least one");
  auto plan = chain();
  plan.edges.clear();
  plan.custom_ops = {"/a", "../b"};
  EXPECT_THAT(validate(plan).error().message(), HasSubstr("; and 2 more"));
}

TEST(ViolationsTest, AStageIsThePlaceOfWhatIsItsOwn) {
  auto plan = chain();
  plan.stages[1].lanes = -1;
  plan.stages[1].batch.frames = 0;
  plan.stages[1].partitions[0].backend.clear();
  const auto error = validate(plan).error();
  EXPECT_EQ(error.reason.find("stage 'stage1'"), std::string::npos) << error.reason;
  ASSERT_NE(error.find(Where::kStage), nullptr);
  EXPECT_EQ(error.find(Where::kStage)->name, "stage1");
  EXPECT_THAT(error.message(),
              testing::MatchesRegex("plan: stage 'stage1': partition 0: no backend named; lanes: "
                                    "expected from 0 to 1024, found -1; batch: frames: .*"));
  plan.stages[0].lanes = -1;
  const auto of_two = validate(plan).error();
  EXPECT_EQ(of_two.find(Where::kStage), nullptr);
  EXPECT_THAT(of_two.message(), HasSubstr("plan: stage 'stage0': lanes: expected"));
  EXPECT_THAT(of_two.message(), HasSubstr("; stage 'stage1', partition 0: no backend"));
}

TEST(ViolationsTest, NamesATensorThatNothingWrites) {
  auto plan = chain();
  plan.tensors.push_back(info("u"));
  plan.stages[1].inputs.push_back("u");
  plan.stages[1].partitions[0].inputs.push_back("u");
  connect(plan);
  EXPECT_THAT(violations(plan),
              ElementsAre("stage 'stage1': reads 'u', which no stage and no pipeline input writes",
                          "no edge carries 'u' to stage 'stage1'"));
}

TEST(ViolationsTest, NamesATensorWrittenTwice) {
  const auto plan = finish({"x"}, {"y"}, {stage(0, {"x"}, {"y", "x"}), stage(1, {"x"}, {"y"})});
  EXPECT_THAT(violations(plan),
              Contains("tensor 'y' is written twice, by stage 'stage0' and by stage 'stage1'"));
  EXPECT_THAT(
      violations(plan),
      Contains("tensor 'x' is written twice, by the pipeline's input and by stage 'stage0'"));
}

TEST(ViolationsTest, NamesACycle) {
  const auto plan =
      finish({"x"}, {"y"}, {stage(0, {"x", "b"}, {"a"}), stage(1, {"a"}, {"b", "y"})});
  EXPECT_THAT(violations(plan), Contains("stage 'stage0': reads 'b' of stage 'stage1', which does "
                                         "not come before it: a cycle"));
}

TEST(ViolationsTest, NamesAnOutputThatNothingWrites) {
  auto plan = chain();
  plan.outputs.push_back(info("z"));
  connect(plan);
  EXPECT_THAT(violations(plan), Contains("output 'z': no stage writes it"));
}

TEST(ViolationsTest, NamesEdgesThatDoNotFitTheStages) {
  auto plan = chain();
  plan.edges[0].to = {0, 7};
  plan.edges[1].tensors = {"y"};
  plan.edges.push_back({.from = 1, .to = {kPipelineOutput, 0}, .tensors = {}});
  const auto found = violations(plan);
  EXPECT_THAT(found, Contains("edges[0]: leads to stage number 7, which does not exist"));
  EXPECT_THAT(found, Contains("edges[1]: stage 'stage0' does not write 'y'"));
  EXPECT_THAT(found, Contains("edges[1]: stage 'stage1' does not read 'y'"));
  EXPECT_THAT(found, Contains("no edge carries 't' to stage 'stage1'"));
  EXPECT_THAT(found, Contains("edges[3]: carries no tensors"));
  EXPECT_THAT(found, Contains("edges[3]: leads from stage 'stage1' back to stage 'stage0'"));
  EXPECT_THAT(found, Contains(HasSubstr("edges[3]: its ends are out of order")));
}

TEST(ViolationsTest, NamesATensorCarriedTwice) {
  auto plan = chain();
  plan.edges.push_back(plan.edges[1]);
  EXPECT_THAT(violations(plan), ElementsAre("2 edges carry 't' to stage 'stage1'"));
}

TEST(ViolationsTest, KeepsOneFrameUnderThePolicyLatest) {
  auto plan = chain();
  plan.edges[0].policy = FullPolicy::kLatest;
  EXPECT_THAT(violations(plan), IsEmpty());
  plan.edges[0].capacity = 2;
  EXPECT_THAT(violations(plan), ElementsAre("edges[0]: policy 'latest' keeps one frame: expected "
                                            "capacity 0 or 1, found 2"));
}

TEST(ViolationsTest, RefusesPathsThatLeaveThePackage) {
  for (const auto* path : {"", "/etc/passwd", "../x", "stages/../../x", "a//b", "./a", "a\\b"}) {
    auto plan = chain();
    plan.stages[0].partitions[0].model = path;
    EXPECT_THAT(violations(plan), ElementsAre(HasSubstr(concat("model '", path, "' "))));
  }
}

TEST(ViolationsTest, NamesPartitionsThatDoNotFitTheirStage) {
  auto plan = chain();
  plan.stages[0].partitions[0].inputs = {"t2"};
  plan.stages[1].partitions[0].outputs.clear();
  plan.stages[1].parameters = {"w"};
  const auto found = violations(plan);
  EXPECT_THAT(found,
              Contains("stage 'stage0', partition 0: reads 't2', which neither the stage nor "
                       "an earlier partition gives"));
  EXPECT_THAT(found, Contains("stage 'stage0': no partition reads its input 'x'"));
  EXPECT_THAT(found, Contains("stage 'stage1': no partition writes its output 'y'"));
  EXPECT_THAT(found, Contains("stage 'stage1': parameter 'w' is not listed"));
}

TEST(ViolationsTest, BoundsTheInstancesOfAllStages) {
  auto plan = chain();
  const auto device = plan.stages[0].devices[0];
  for (auto& stage : plan.stages) stage.devices.assign(kMostInstances / 2, device);
  EXPECT_THAT(violations(plan), IsEmpty());
  plan.stages[0].devices.push_back(device);
  EXPECT_THAT(violations(plan),
              ElementsAre("the stages have 1025 replicas in all: expected at most "
                          "1024, as each is a thread"));
  plan.stages[0].devices.pop_back();
  plan.stages[0].standby = {*device::parse_device("cpu:1")};
  EXPECT_THAT(violations(plan),
              ElementsAre("the stages have 1024 replicas and 1 stand-by devices in all: expected "
                          "at most 1024, as each is a thread"));
}

TEST(ViolationsTest, BoundsHowCallsAreMade) {
  auto plan = chain();
  auto& stage = plan.stages[0];
  stage.lanes = kMostLanes;
  stage.max_left_behind = kMostLanes;
  stage.batch = {2, std::chrono::microseconds(1)};
  plan.streams.most = 1'000'000;
  EXPECT_THAT(violations(plan), IsEmpty());
  stage.lanes = -1;
  stage.max_left_behind = kMostLanes + 1;
  stage.batch = {0, std::chrono::microseconds(-1)};
  plan.stages[1].batch.wait = std::chrono::microseconds(5);
  plan.streams.most = 0;
  EXPECT_THAT(
      violations(plan),
      ElementsAre(
          "stage 'stage0': lanes: expected from 0 to 1024, found -1",
          "stage 'stage0': max_left_behind: expected from 0 to 1024, found 1025",
          "stage 'stage0': batch: frames: expected from 1 to 2147483647, found 0",
          "stage 'stage0': batch: wait: expected from 1 to 1000000000000000 microseconds, found -1",
          "stage 'stage1': batch: waits 5 microseconds for more frames, and takes 1: expected at "
          "least 2 frames, or no wait",
          "streams: most: expected from 1 to 2147483647, found 0"));
}

TEST(ViolationsTest, TakesModelsForSeveralFramesWithinTheBatch) {
  auto plan = chain();
  auto& stage = plan.stages[0];
  stage.batch.frames = 4;
  auto& batched = stage.partitions[0].batched;
  batched = {{2, "stages/0.b2.onnx"}, {4, "stages/0.b4.onnx"}};
  EXPECT_THAT(violations(plan), IsEmpty());
  batched = {{4, "../4.onnx"}, {2, "stages/2.onnx"}, {5, "stages/5.onnx"}, {1, "stages/1.onnx"}};
  const std::string place = "stage 'stage0', partition 0, batched for ";
  const std::string expected = ": expected ascending from 2 to the stage's batch of 4";
  EXPECT_THAT(violations(plan),
              ElementsAre(place + "4 frames: model '../4.onnx' leads outside the package",
                          place + "2 frames" + expected, place + "5 frames" + expected,
                          place + "1 frame" + expected));
  stage.batch.frames = 1;
  batched = {{2, "stages/2.onnx"}};
  EXPECT_THAT(violations(plan),
              ElementsAre(place + "2 frames: expected ascending from 2 to the stage's batch of 1"));
  stage.batch.frames = 2;
  stage.partitions[0].backend = kFunctionBackend;
  stage.partitions[0].options["function"] = "f";
  EXPECT_THAT(violations(plan),
              ElementsAre("stage 'stage0', partition 0: batched: expected no models for several "
                          "frames, as a function has none"));
}

TEST(ViolationsTest, AllowsOneLaneWhereACallFollowsFromTheOneBefore) {
  auto plan = finish({"x", "s"}, {"y", "t"}, {stage(0, {"x", "s"}, {"y", "t"})});
  ASSERT_TRUE(add_state(plan, {"t", "s", ""}));
  Stage& only = plan.stages[0];
  only.lanes = 1;
  EXPECT_THAT(violations(plan), IsEmpty());
  only.lanes = 2;
  const std::string found = "stage 'stage0': expected 1 lane, found 2: ";
  EXPECT_THAT(violations(plan),
              ElementsAre(found + "it writes 't', a state that the next frame reads"));
  plan = chain();
  plan.stages[0].lanes = plan.stages[1].lanes = 2;
  EXPECT_THAT(violations(plan), IsEmpty());
  plan.stages[0].partitions[0].backend = kFunctionBackend;
  plan.stages[0].stateful = true;
  EXPECT_THAT(violations(plan),
              ElementsAre(found + "it is stateful and sees the frames one at a time",
                          found + "a function takes one call at a time"));
  plan = chain();
  plan.inputs[0].type.dims[0] = plan.tensors[0].type.dims[0] = {Dim::kOpen, "n", 4};
  plan.stages[0].each = {"x"};
  plan.stages[0].lanes = 2;
  EXPECT_THAT(violations(plan),
              ElementsAre(found + "it runs for the items of a frame one after the other"));
  plan = finish({"x"}, {"y"}, {stage(0, {"x"}, {"t"})});
  plan.tensors = {info("t")};
  plan.stages[0].partitions.push_back(stage(1, {"t"}, {"y"}).partitions[0]);
  plan.stages[0].outputs = {"y"};
  connect(plan);
  plan.stages[0].lanes = 2;
  EXPECT_THAT(violations(plan), ElementsAre(found + "its partitions run one after the other"));
}

TEST(ViolationsTest, KeepsHostCpusForOtherDevices) {
  auto plan = chain();
  plan.stages[0].host_cpus = {1, 1};
  EXPECT_THAT(
      violations(plan),
      ElementsAre("stage 'stage0': host_cpus: expected CPU numbers from 0, ascending, found 1 1",
                  "stage 'stage0': host_cpus: expected none, as its devices are CPUs of this "
                  "machine"));
  plan.stages[0].host_cpus = {0, 1};
  plan.stages[0].devices = {*device::parse_device("cuda:0")};
  EXPECT_THAT(violations(plan), IsEmpty());
}

TEST(ViolationsTest, NamesStandbyDevicesThatDoNotHelp) {
  auto plan = chain();
  auto& stage = plan.stages[0];
  stage.standby = {*device::parse_device("cpu:1"), *device::parse_device("cpu:1"), stage.devices[0],
                   device::Device()};
  EXPECT_THAT(violations(plan),
              ElementsAre("stage 'stage0': standby 'cpu:1' is listed twice",
                          "stage 'stage0': standby 'cpu:0' is one of its own devices",
                          "stage 'stage0': standby: device names no CPU"));
}

Plan with_a_served_stage() {
  auto plan = chain();
  auto& stage = plan.stages[0];
  stage.devices = {*device::parse_device("oip://[::1]:8001")};
  auto& first = stage.partitions[0];
  first.model.clear();
  first.backend = kRemoteBackend;
  first.served = {"[::1]:8001", "resnet", ""};
  return plan;
}

TEST(ViolationsTest, TakesAModelThatAServerHas) {
  auto plan = with_a_served_stage();
  plan.stages[0].partitions[0].idempotent = true;
  plan.stages[0].standby = {*device::parse_device("oip://10.0.0.2:8001")};
  EXPECT_THAT(violations(plan), IsEmpty());
}

TEST(ViolationsTest, NamesWhatContradictsAServersModel) {
  auto plan = with_a_served_stage();
  auto& stage = plan.stages[0];
  stage.partitions[0].backend = "onnxruntime";
  stage.partitions[0].served->address = "elsewhere:1";
  stage.standby = {*device::parse_device("cpu:1")};
  plan.stages[1].partitions[0].idempotent = true;
  plan.stages[1].devices = {*device::parse_device("oip://[::1]:8001")};
  EXPECT_THAT(
      violations(plan),
      ElementsAre(
          "stage 'stage0', partition 0: backend 'onnxruntime': expected 'remote', as a server has "
          "the model",
          "stage 'stage0', partition 0: 'oip://elsewhere:1/resnet': expected its server, "
          "'oip://elsewhere:1', among the stage's devices",
          "stage 'stage0': device 'cpu:1': expected a server, 'oip://host:port', as it has the "
          "model",
          "stage 'stage1', partition 0: idempotent says something of a server: expected a model "
          "'oip://...'",
          "stage 'stage1': device 'oip://[::1]:8001': expected CPUs or a GPU, as the model is the "
          "package's own"));
}

TEST(ServedModelTest, IsReadAsItIsWritten) {
  for (const auto* text : {"oip://host:8001/resnet", "oip://[::1]:1/a.b-c:3", "oip://host:1/",
                           "oip://unix:/run/s.sock/a:3", "oip://unix:s/"}) {
    const auto model = parse_served_model(text);
    ASSERT_TRUE(model) << model.error().message();
    EXPECT_EQ(to_string(*model), text);
  }
}

TEST(ServedModelTest, SaysWhatIsMissing) {
  for (const auto* text : {"oip://", "oip://host/resnet", "oip://host:1", "oip://host:1/:1",
                           "oip://host:1/a/b", "oip://host:1/a:", "http://host:1/a"}) {
    const auto model = parse_served_model(text);
    ASSERT_FALSE(model) << text;
    EXPECT_THAT(model.error().message(), HasSubstr("write oip://host:port/name"));
  }
}

TEST(ServedModelTest, SaysWhereTheNameIsMissingBehindASocketsFile) {
  for (const auto* text :
       {"oip://unix:", "oip://unix:/", "oip://unix:s.sock", "oip://unix:/s.sock"}) {
    const auto model = parse_served_model(text);
    ASSERT_FALSE(model) << text;
    EXPECT_THAT(model.error().message(),
                HasSubstr("expected the model's name behind the socket's file; write "
                          "oip://unix:PATH/name"))
        << text;
  }
}

TEST(ViolationsTest, NamesTypesThatContradict) {
  auto plan = finish({"x"}, {"x", "y"}, {stage(0, {"x"}, {"y"})});
  plan.outputs[0].type.dtype = DType::kI64;
  EXPECT_THAT(violations(plan), ElementsAre("tensor 'x' is f32[1] as input and i64[1] as output"));
}

TEST(ViolationsTest, RefusesNamesThatAreNotUtf8) {
  auto plan = chain();
  plan.inputs[0].name = plan.stages[0].inputs[0] = plan.stages[0].partitions[0].inputs[0] = "\xFF";
  connect(plan);
  EXPECT_THAT(violations(plan),
              ElementsAre("input with a name that is not UTF-8: rename it in the model"));
}

TEST(FullPolicyTest, ReadsWhatItWrites) {
  for (const auto policy : {FullPolicy::kBlock, FullPolicy::kDropOldest, FullPolicy::kDropNewest,
                            FullPolicy::kLatest, FullPolicy::kError}) {
    EXPECT_EQ(parse_full_policy(to_string(policy)), policy);
  }
  EXPECT_EQ(parse_full_policy("wait"), std::nullopt);
}

TEST(StreamOptionsTest, WhatIsGivenIsWrittenIntoThePlan) {
  auto plan = chain();
  plan.edges[1].policy = FullPolicy::kLatest;
  StreamOptions stream;
  stream.input_policy = FullPolicy::kDropOldest;
  stream.capacity = 7;
  stream.max_age = std::chrono::milliseconds(3);
  stream.on_error = OnError::kStop;
  stream.max_run = std::chrono::milliseconds(5);
  stream.max_left_behind = 2;
  stream.streams = Streams{4, true};
  apply(stream, plan);
  EXPECT_EQ(plan.edges[0].policy, FullPolicy::kDropOldest);
  EXPECT_EQ(plan.edges[0].capacity, 7);
  EXPECT_EQ(plan.edges[1].capacity, 1);  // Of `latest`, whatever is asked for.
  EXPECT_EQ(plan.edges[2].policy, FullPolicy::kBlock);
  EXPECT_EQ(plan.edges[2].capacity, 7);
  for (const auto& stage : plan.stages) {
    EXPECT_EQ(stage.max_run, std::chrono::milliseconds(5));
    EXPECT_EQ(stage.max_left_behind, 2);
  }
  EXPECT_EQ(plan.max_age, std::chrono::milliseconds(3));
  EXPECT_EQ(plan.on_error, OnError::kStop);
  EXPECT_EQ(plan.streams, (Streams{4, true}));
}

TEST(StreamOptionsTest, AllFramesAreKeptWhereTheyAreJudged) {
  auto plan = chain();
  EXPECT_FALSE(keep_all_frames(plan));
  const auto before = plan;
  plan.edges[0].policy = FullPolicy::kError;
  plan.edges[1].policy = FullPolicy::kDropNewest;
  plan.max_age = std::chrono::milliseconds(3);
  EXPECT_TRUE(keep_all_frames(plan));
  EXPECT_EQ(plan, before);
}

TEST(StreamOptionsTest, WhatIsLeftOutStays) {
  auto plan = chain();
  plan.edges[0].capacity = 3;
  plan.max_age = std::chrono::milliseconds(3);
  const auto before = plan;
  apply({}, plan);
  EXPECT_EQ(plan, before);
}

}  // namespace
}  // namespace penstock::plan
