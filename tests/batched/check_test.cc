// What split_model() checks of the models for several frames.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/batched.h"
#include "penstock/graph/test_support.h"
#include "penstock/session/batch_check.h"
#include "penstock/session/session.h"
#include "tests/support/fake_accelerator.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kNetwork = R"(<ir_version: 8, opset_import: ["" : 17]> net
    (float[1,2] x, float[1,2] z) => (float[1,2] y) <float[1,2] c = {1, 2}>
    { [a] t = Mul(x, c) [b] y = Add(t, z) })";

class BatchCheckTest : public ::testing::Test {
 protected:
  /// The network in two stages that take three frames in a call.
  plan::Plan split(const std::vector<std::string>& parameters = {}) {
    graph::ImportOptions import;
    import.parameters = parameters;
    graph_ = graph::import_text(kNetwork, import);
    partition::SplitOptions options;
    options.by = partition::Cuts{{"a"}};
    options.batches[""] = {.frames = 3};
    const auto plan = split_model(graph_, options, {}, package(), backends_);
    EXPECT_TRUE(plan) << plan.error().message();
    return plan ? *plan : plan::Plan();
  }

  [[nodiscard]] fs::path package() const { return folder_.path() / "p"; }

  const backend::Registry backends_ = backend::Registry::load();
  TemporaryFolder folder_;
  graph::Graph graph_;
};

TEST_F(BatchCheckTest, PassesWhatComputesTheSame) {
  const auto plan = split();
  EXPECT_EQ(plan.stages.at(1).batch.frames, 3);
  EXPECT_TRUE(check_batches(plan, package(), backends_));
}

TEST_F(BatchCheckTest, GivesParametersAsTheyAre) {
  const auto plan = split({"c"});
  ASSERT_EQ(plan.parameters.size(), 1);
  EXPECT_TRUE(check_batches(plan, package(), backends_));
}

TEST_F(BatchCheckTest, NamesTheModelWhoseOutputDiffers) {
  const auto plan = split();
  const auto wrong = graph::import_text(R"(<ir_version: 8, opset_import: ["" : 17]> net
      (float[3,2] t, float[3,2] z) => (float[3,2] y) { y = Sub(t, z) })");
  const auto file = package() / plan.stages.at(1).partitions.at(0).batched.at(1).model;
  ASSERT_TRUE(graph::write_onnx(graph::Subgraph::whole(wrong), file, {}));
  const auto checked = check_batches(plan, package(), backends_);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(checked.error().message(),
              AllOf(HasSubstr("stage 'stage1': model 'stages/1.b3.onnx': output 'y': 3 frames in "
                              "one call give something else than one by one: "),
                    HasSubstr(" of 6 values outside the tolerance")));
}

/// Of open shapes, in batches of two.
Result<plan::Plan> split_open(const std::string& network, const std::string& shape,
                              const fs::path& package, const backend::Registry& backends) {
  graph::ImportOptions import;
  const auto parsed = graph::parse_shape(shape);
  import.shapes.insert(*parsed);
  partition::SplitOptions options;
  options.batches[""] = {.frames = 2};
  return split_model(graph::import_text(network, import), options, {}, package, backends);
}

TEST_F(BatchCheckTest, SaysWhichInputsTheModelOfOneFrameDoesNotTake) {
  const auto plan = split_open(R"(<ir_version: 8, opset_import: ["" : 17]> net
      (float[n,4] x) => (float[m,4] y) <float[3,4] c = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>
      { [add] y = Add(x, c) })",
                               "x=1..9x4", package(), backends_);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message(),
              AllOf(HasSubstr("stage 'stage0': model 'stages/0.onnx': its model of one frame does "
                              "not take input 'x' as f32[9,4], with which the models for several "
                              "are checked: fix sizes (--shape), or leave the stage out"),
                    HasSubstr("; node 'add' (Add) reads 'x' ")));
}

/// Reads w beyond its end where f is 1; where `offset` is 1000, always.
std::string lookup(int offset) {
  return concat(R"(<ir_version: 8, opset_import: ["" : 17]> net
      (float[1,4] x, int64[1,1] f) => (float[1,4] y)
      <int64 one = {1}, int64 far = {1000}, int64 offset = {)",
                offset, R"(}, float[4] w = {1, 2, 3, 4}>
      { e = Equal(f, one) c = Cast <to = 7> (e) m = Mul(c, far) i = Add(m, offset)
        g = Gather(w, i) y = Add(x, g) })");
}

Result<plan::Plan> split_in_twos(const std::string& network, const fs::path& package,
                                 const backend::Registry& backends) {
  partition::SplitOptions options;
  options.batches[""] = {.frames = 2};
  return split_model(graph::import_text(network), options, {}, package, backends);
}

TEST_F(BatchCheckTest, TriesOtherValuesThanThoseThatTheModelOfOneFrameDoesNotTake) {
  const auto plan = split_in_twos(lookup(0), package(), backends_);
  EXPECT_TRUE(plan) << plan.error().message();
}

TEST_F(BatchCheckTest, SaysThatTheValuesWereRandomWhereNoSizeIsOpen) {
  const auto plan = split_in_twos(lookup(1000), package(), backends_);
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message(),
              HasSubstr("its model of one frame does not take random values of input 'x' as "
                        "f32[1,4], input 'f' as i64[1,1], with which the models for several are "
                        "checked: leave the stage out of the batch (STAGE=1); the engine says: "));
}

// Of the size that is tried first, 4, both models are right.
TEST_F(BatchCheckTest, TriesAnotherSizeOfOpenDimensions) {
  const auto plan = split_open(R"(<ir_version: 8, opset_import: ["" : 17]> net
      (float[1,n] x) => (float[1,n] y) { [neg] y = Neg(x) })",
                               "x=1x1..4", package(), backends_);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_TRUE(check_batches(*plan, package(), backends_));
  const auto wrong = graph::import_text(R"(<ir_version: 8, opset_import: ["" : 17]> net
      (float[2,n] x) => (float[2,n] y) <int64 four = {4}>
      { s = Shape <start = 1> (x) z = Sub(s, four) f = Cast <to = 1> (z) a = Neg(x) y = Add(a, f) })");
  const auto file = package() / plan->stages.at(0).partitions.at(0).batched.at(0).model;
  ASSERT_TRUE(graph::write_onnx(graph::Subgraph::whole(wrong), file, {}));
  const auto checked = check_batches(*plan, package(), backends_);
  ASSERT_FALSE(checked);
  EXPECT_THAT(checked.error().message(),
              AllOf(HasSubstr("output 'y': 2 frames in one call give something else"),
                    HasSubstr(" of 4 values outside the tolerance")));
}

// y = 2 x, in three frames a call, on a device whose memory the host cannot read.
struct BatchOnAccelerator : ::testing::Test {
  BatchOnAccelerator() {
    const Type row = Type::tensor(DType::kF32, std::vector<std::int64_t>{1, 2});
    penstock::testing::FakeNetwork models;
    models.input("x", row)
        .stage("0", {"x"}, {"y"},
               [](penstock::testing::Inputs in, penstock::testing::Outputs out) -> Status {
                 for (int i : {0, 1}) out[0]->as<float>()[i] = 2 * in[0]->as<float>()[i];
                 return {};
               },
               1, {row})
        .together("0", {2, 3});
    accelerator->take(models, "0");
  }
  Result<plan::Plan> split(const backend::Registry& backends) {
    const auto graph = graph::import_text(R"(<ir_version: 8, opset_import: ["" : 17]> net
        (float[1,2] x) => (float[1,2] y) <float[1] c = {2}> { y = Mul(x, c) })");
    partition::SplitOptions options;
    options.backend = "accelerator";
    options.devices = *device::parse_devices("cuda:0");
    options.batches[""] = {.frames = 3, .wait = std::chrono::seconds(600)};
    return split_model(graph, options, {}, folder.path() / "p", backends);
  }
  const std::shared_ptr<penstock::testing::FakeAccelerator> accelerator =
      std::make_shared<penstock::testing::FakeAccelerator>();
  TemporaryFolder folder;
};

TEST_F(BatchOnAccelerator, RunsAsItWasSplit) {
  auto backends = backend::Registry::load();
  backends.add(accelerator);
  const auto plan = split(backends);
  ASSERT_TRUE(plan) << plan.error().message();
  auto started = pipeline::Pipeline::start(*plan, folder.path() / "p", backends);
  ASSERT_TRUE(started) << started.error().message();
  accelerator->forget_copies();
  for (int frame = 0; frame < 6; ++frame) {
    Tensor x = Tensor::allocate(DType::kF32, {1, 2});
    x.as<float>()[1] = static_cast<float>(frame);
    ASSERT_TRUE((*started)->push(std::vector{x}));
  }
  for (int frame = 0; frame < 6; ++frame) {
    const auto output = (*started)->pop();
    ASSERT_TRUE(output && *output && (*output)->ok());
    EXPECT_EQ((**output)[0].as<float>()[1], 2 * static_cast<float>(frame));
  }
  EXPECT_THAT((*started)->stats().stages[0].calls, ::testing::ElementsAre(0, 0, 2));
  EXPECT_EQ(accelerator->memory_of(0).from_host, 6);
  EXPECT_EQ(accelerator->memory_of(0).to_host, 6);
}

TEST_F(BatchOnAccelerator, IsCheckedByNoBackendThatTakesAcceleratorsAlone) {
  backend::Registry backends;
  backends.add(accelerator);
  const auto plan = split(backends);
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kUnavailable);
  EXPECT_THAT(plan.error().message(), HasSubstr("no engine is here to check the models"));
}

}  // namespace
}  // namespace penstock
