// Plans written and read again, and the messages for fields that are wrong, missing or unknown.
#include "penstock/plan/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/plan/test_plans.h"
#include "tests/support/sample.h"

namespace penstock::plan {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

/// The chain's JSON with one piece of text replaced by another.
std::string changed(const std::string& from, const std::string& to) {
  auto text = to_json(chain());
  const auto at = text.find(from);
  EXPECT_NE(at, text.npos) << from << " is not in " << text;
  if (at != text.npos) text.replace(at, from.size(), to);
  return text;
}

void expect_error(const std::string& text, Code code, const std::string& message) {
  const auto plan = from_json(text);
  ASSERT_FALSE(plan) << message;
  EXPECT_EQ(plan.error().code, code);
  EXPECT_THAT(plan.error().message(), StartsWith(message));
}

TEST(PlanJsonTest, ReadsWhatItWrites) {
  for (const auto seed : sampled(500)) {
    const auto plan = RandomPlan(static_cast<unsigned>(seed)).make();
    const auto text = to_json(plan);
    const auto again = from_json(text);
    ASSERT_TRUE(again) << "seed " << seed << ": " << again.error().message();
    EXPECT_EQ(*again, plan) << "seed " << seed;
    EXPECT_EQ(to_json(*again), text) << "seed " << seed;
  }
}

TEST(PlanJsonTest, KeepsTheNumbersThatAnInputTakes) {
  auto plan = chain();
  plan.inputs[0].range = WholeRange{-3, 29};
  const auto text = to_json(plan);
  const auto again = from_json(text);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->inputs[0].range, (WholeRange{-3, 29}));
  auto turned = text;
  turned.replace(turned.find("-3"), 2, "30");
  expect_error(turned, Code::kInvalidArgument,
               "inputs[0].values: expected the least and the largest number, found");
}

TEST(PlanJsonTest, KeepsADeviceThatIsNoCpu) {
  auto plan = chain();
  plan.stages[0].devices = {*device::parse_device("cuda:1"),
                            *device::parse_device("10.0.0.1:70/cuda:2")};
  const auto again = from_json(to_json(plan));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, plan);
}

TEST(PlanJsonTest, KeepsItemsAndStates) {
  auto plan = finish({"x", "s"}, {"y", "t"}, {stage(0, {"x", "s"}, {"y", "t"})});
  ASSERT_TRUE(add_state(plan, {"t", "s", "states/0.npy"}));
  plan.inputs[0].type.dims[0] = {Dim::kOpen, "n", 7};
  plan.outputs[0].type.dims[0] = plan.tensors[1].type.dims[0] = plan.inputs[0].type.dims[0];
  for (auto& info : plan.tensors) info.type = plan.inputs[0].type;
  plan.stages[0].each = {"x"};
  const auto again = from_json(to_json(plan));
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, plan);
}

TEST(PlanJsonTest, WritesNoDefaultsOfWhatFewPlansSay) {
  const auto text = to_json(chain());
  for (const auto* field :
       {"stateful", "each", "max_run_us", "ports", "states", "lanes", "max_left_behind",
        "host_cpus", "batch", "batched", "standby", "idempotent", "streams", "draws"}) {
    EXPECT_THAT(text, Not(HasSubstr(field)));
  }
}

TEST(PlanJsonTest, IsReadable) {
  const auto text = to_json(chain());
  EXPECT_THAT(text, StartsWith("{\n  \"penstock_plan\": 2,\n  \"model\": \"test\",\n"));
  EXPECT_THAT(text,
              HasSubstr("\"name\": \"x\",\n      \"dtype\": \"f32\",\n      \"shape\": [1]\n"));
  EXPECT_THAT(text, HasSubstr("\"from\": \"input\",\n      \"to\": [\"stage0\"],\n"));
}

TEST(PlanJsonTest, SaysWhereTextIsNotJson) {
  expect_error("", Code::kDataLoss, "not JSON: at line 1, column 1");
  expect_error("{\n  \"a\": ,", Code::kDataLoss, "not JSON: at line 2, column 8");
  expect_error(std::string(1'000'000, '['), Code::kDataLoss,
               "at line 1, column 201: expected at most 200 brackets");
  expect_error("{\"model\": " + std::string(100'000, '['), Code::kDataLoss,
               "at line 1, column 210: ");
}

TEST(PlanJsonTest, RefusesAFieldThatIsGivenTwice) {
  expect_error(changed("\"model\": \"test\",", "\"model\": \"test\", \"model\": \"other\","),
               Code::kDataLoss, "field 'model' is given twice");
  expect_error(changed("\"name\": \"x\",", "\"name\": \"x\", \"name\": \"x\","), Code::kDataLoss,
               "field 'name' is given twice");
}

TEST(PlanJsonTest, RefusesAnotherVersionAndSaysWhich) {
  expect_error(
      R"({"penstock_plan": 3, "origin": {"penstock": "9.1"}, "new": 1})", Code::kFailedPrecondition,
      "penstock_plan: expected version 1 or 2, found 3 (made by Penstock 9.1); split the model "
      "again with this release, or use the release that made it");
  expect_error("{}", Code::kInvalidArgument, "penstock_plan: missing; expected 2");
  expect_error("[]", Code::kInvalidArgument,
               "expected an object with 'penstock_plan', found array");
}

TEST(PlanJsonTest, ReadsTheVersionBeforeAndWritesItsOwn) {
  const auto plan = from_json(changed("\"penstock_plan\": 2", "\"penstock_plan\": 1"));
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(*plan, chain());
  EXPECT_EQ(to_json(*plan), to_json(chain()));
}

TEST(PlanJsonTest, KeepsHowCallsAreMade) {
  auto plan = chain();
  auto& stage = plan.stages[0];
  stage.devices = {*device::parse_device("cuda:0")};
  stage.standby = {*device::parse_device("10.0.0.1:70/cuda:2")};
  stage.host_cpus = {0, 3};
  stage.lanes = 4;
  stage.max_left_behind = 2;
  stage.batch = {8, std::chrono::microseconds(250)};
  stage.partitions[0].batched = {{2, "stages/0.b2.onnx"}, {8, "stages/0.b8.onnx"}};
  plan.stages[1].partitions[0].model.clear();
  plan.stages[1].devices = {*device::parse_device("oip://models.example:8001")};
  plan.stages[1].partitions[0].backend = kRemoteBackend;
  plan.stages[1].partitions[0].served = {"models.example:8001", "resnet", "2"};
  plan.stages[1].partitions[0].idempotent = true;
  plan.streams = {100, true};
  const auto text = to_json(plan);
  for (const auto* written : {
           R"("lanes": 4)",
           R"("max_left_behind": 2)",
           R"("host_cpus": [0,3])",
           R"("standby": ["10.0.0.1:70/cuda:2"])",
           R"("model": "oip://models.example:8001/resnet:2")",
           "\"frames\": 2,\n              \"model\": \"stages/0.b2.onnx\"\n",
           R"("idempotent": true)",
       }) {
    EXPECT_THAT(text, HasSubstr(written));
  }
  const auto again = from_json(text);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(*again, plan);
}

TEST(PlanJsonTest, NamesTheFieldThatIsWrong) {
  expect_error(changed("\"pinned\": true", "\"batch\": {\"frames\": 0}"), Code::kInvalidArgument,
               "stages[0].batch.frames: expected an integer from 1 to 2147483647, found 0");
  expect_error(changed("\"pinned\": true", "\"host_cpus\": [\"0\"]"), Code::kInvalidArgument,
               "stages[0].host_cpus[0]: expected an integer from 0 to 2147483647, found '0'");
  expect_error(changed("\"model\": \"stages/0.onnx\"",
                       "\"model\": \"m\", \"batched\": [{\"frames\": 1, \"model\": \"m\"}]"),
               Code::kInvalidArgument,
               "stages[0].partitions[0].batched[0].frames: expected an integer from 2 to "
               "2147483647, found 1");
  expect_error(changed("\"on_error\"", "\"streams\": {\"limit\": 1}, \"on_error\""),
               Code::kInvalidArgument, "streams.limit: unknown field; expected one of most, evict");
  expect_error(changed("[\"cpu:0\"]", "[\"gpu:9\"]"), Code::kInvalidArgument,
               "stages[0].devices[0]: expected a device such as 'cpu:0', found 'gpu:9'");
  expect_error(changed("\"f32\"", "\"float\""), Code::kInvalidArgument,
               "inputs[0].dtype: expected an element type such as 'f32' or 'i64', found 'float'");
  expect_error(changed("\"shape\": [1]", "\"shape\": [-1]"), Code::kInvalidArgument,
               "inputs[0].shape[0]: expected an integer from 0 to ");
  expect_error(changed("\"shape\": [1]", "\"shape\": [true]"), Code::kInvalidArgument,
               "inputs[0].shape[0]: expected a size, a name, null, or an object with size, symbol, "
               "bound, usual, found true");
  expect_error(changed("\"block\"", "\"wait\""), Code::kInvalidArgument,
               "edges[0].policy: expected one of block, drop_oldest, drop_newest, latest, error, "
               "found 'wait'");
  expect_error(changed("\"from\": \"stage0\"", "\"from\": \"stag0\""), Code::kInvalidArgument,
               "edges[1].from: expected 'input' or the name of a stage, found 'stag0'");
  expect_error(changed("\"deliver\"", "true"), Code::kInvalidArgument,
               "on_error: expected a string, found true");
  expect_error(changed("\"capacity\": 0", "\"capacity\": 18446744073709551615"),
               Code::kInvalidArgument,
               "edges[0].capacity: expected an integer from 0 to 2147483647, found 184467");
  expect_error(changed("\"shape\": [1]", "\"onnx_type\": \"00\""), Code::kInvalidArgument,
               "inputs[0]: expected either 'onnx_type' or 'dtype' and 'shape', found an object");
}

TEST(PlanJsonTest, NamesAMissingField) {
  expect_error(changed("\"backend\": \"onnxruntime\",", ""), Code::kInvalidArgument,
               "stages[0].partitions[0].backend: missing");
}

TEST(PlanJsonTest, RefusesAFieldThatItDoesNotKnow) {
  expect_error(changed("\"pinned\"", "\"pined\""), Code::kInvalidArgument,
               "stages[0].pined: unknown field; expected one of name, devices, pinned, ");
}

TEST(PlanJsonTest, RefusesAPlanThatCannotRun) {
  expect_error(changed("\"outputs\": [\"t\"]", "\"outputs\": [\"u\"]"), Code::kInvalidArgument,
               "plan: ");
}

TEST(PlanJsonTest, TakesDefaultsWhereAHandWrittenPlanIsShort) {
  const auto plan = from_json(R"({
    "penstock_plan": 1, "model": "m",
    "inputs": [{"name": "x", "dtype": "f32", "shape": ["n", 3]}],
    "outputs": [{"name": "y"}],
    "stages": [{"name": "only", "devices": ["cpu:0"], "inputs": ["x"], "outputs": ["y"],
                "partitions": [{"backend": "onnxruntime", "model": "m.onnx",
                                "inputs": ["x"], "outputs": ["y"]}]}],
    "edges": [{"from": "input", "to": ["only"], "tensors": ["x"]},
              {"from": "only", "to": ["output"], "tensors": ["y"]}]})");
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_TRUE(plan->stages[0].pinned);
  EXPECT_EQ(plan->edges[0].policy, FullPolicy::kBlock);
  EXPECT_EQ(plan->max_age, std::nullopt);
  EXPECT_EQ(to_string(plan->inputs[0].type), "f32[n,3]");
}

TEST(PlanJsonTest, SurvivesAnyPieceOfItself) {
  const auto text = to_json(chain());
  for (std::size_t length = 0; length < text.size() - 2; ++length) {
    EXPECT_FALSE(from_json(text.substr(0, length)));
  }
}

}  // namespace
}  // namespace penstock::plan
