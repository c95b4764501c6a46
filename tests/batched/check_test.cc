// What split_model() checks of the models for several frames.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/batched.h"
#include "penstock/graph/test_support.h"
#include "penstock/session/batch_check.h"
#include "penstock/session/session.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kNetwork = R"(<ir_version: 8, opset_import: ["" : 17]> net
    (float[1,2] x, float[1,2] z) => (float[1,2] y) <float[1,2] c = {1, 2}>
    { [a] t = Mul(x, c) [b] y = Add(t, z) })";

class BatchCheckTest : public testing::Test {
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

}  // namespace
}  // namespace penstock
