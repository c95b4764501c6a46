// The C interface: scenarios in C over packages of functions, and calls from many threads at once.
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <penstock.h>

#include "penstock/c/scenario.h"
#include "penstock/plan/package.h"
#include "tests/support/temporary_folder.h"

namespace penstock::c {
namespace {

namespace fs = std::filesystem;

Type row() {
  return Type::tensor(DType::kF32, std::vector<Dim>{{4, {}, Dim::kOpen}});
}

/// A package of one stage, a function of examples/function/example.c.
void write_package(const fs::path& target, const std::string& function, const std::string& output,
                   const Type& type) {
  plan::Plan plan;
  plan.model = "test";
  plan.inputs = {{"x", row()}};
  plan.outputs = {{output, type}};
  plan::Stage stage;
  stage.name = "stage0";
  stage.inputs = {"x"};
  stage.outputs = {output};
  stage.devices = {{.host = {}, .cpus = {*device::inherited_cpus().begin()}}};
  plan::Partition partition;
  partition.backend = plan::kFunctionBackend;
  partition.model = "functions/lib.so";
  partition.inputs = stage.inputs;
  partition.outputs = stage.outputs;
  partition.options = {{"function", function}};
  stage.partitions = {partition};
  plan.stages = {stage};
  plan::connect(plan);
  auto writer = plan::PackageWriter::create(target);
  ASSERT_TRUE(writer) << writer.error().message();
  fs::create_directories(writer->folder() / "functions");
  fs::copy_file(fs::path(PENSTOCK_TEST_FUNCTIONS) / "libpenstock_test_functions.so",
                writer->folder() / "functions/lib.so");
  const auto written = writer->commit(plan);
  ASSERT_TRUE(written) << written.error().message();
}

class CInterface : public ::testing::Test {
 protected:
  void SetUp() override {
    write_package(package_, "scale", "y", row());
    write_package(
        items_, "scatter", "items",
        Type::tensor(DType::kF32, std::vector<Dim>{{Dim::kOpen, "n", 8}, {4, {}, Dim::kOpen}}));
  }

  TemporaryFolder folder_;
  fs::path package_ = folder_.path() / "scale.penstock";
  fs::path items_ = folder_.path() / "items.penstock";
};

TEST_F(CInterface, FramesComeOutInOrderAndThenNothing) {
  EXPECT_STREQ(penstock_scenario_frames_in_order(package_.c_str()), nullptr);
}

TEST_F(CInterface, AFramesErrorHasItsPartsAndDropsAreNoErrors) {
  EXPECT_STREQ(penstock_scenario_outcomes(package_.c_str()), nullptr);
}

TEST_F(CInterface, InputsMayBeBorrowedFilledAndGivenBack) {
  EXPECT_STREQ(penstock_scenario_borrowed_inputs(package_.c_str()), nullptr);
}

TEST_F(CInterface, LentMemoryIsReleasedOnceAndNotAtAllWhereThePushFails) {
  EXPECT_STREQ(penstock_scenario_lent_memory(package_.c_str()), nullptr);
}

TEST_F(CInterface, CallbacksGetEachFrameOnce) {
  EXPECT_STREQ(penstock_scenario_callbacks(package_.c_str()), nullptr);
}

TEST_F(CInterface, StatisticsAreASnapshot) {
  EXPECT_STREQ(penstock_scenario_statistics(package_.c_str()), nullptr);
}

TEST_F(CInterface, OpenDimensionsCarryTheirBoundAndEachFrameItsSize) {
  EXPECT_STREQ(penstock_scenario_open_dimensions(items_.c_str()), nullptr);
}

TEST_F(CInterface, TensorsThatMakeNoSenseAreRefused) {
  EXPECT_STREQ(penstock_scenario_wrong_input(package_.c_str()), nullptr);
}

TEST_F(CInterface, NullIsRefusedOrMeansNothing) {
  EXPECT_STREQ(penstock_scenario_null(), nullptr);
}

TEST_F(CInterface, ErrorsNameWhatWasGiven) {
  EXPECT_STREQ(penstock_scenario_errors(package_.c_str()), nullptr);
}

/// What the threads of the next test did.
struct Count {
  std::uint64_t pushed = 0, popped = 0;
  int failures = 0;
};

void push_rows(penstock_pipeline* pipeline, int frames, Count& count) {
  std::vector<float> values(4, 1);
  std::int64_t dims = 4;
  const penstock_tensor tensor{PENSTOCK_F32, 1, &dims, values.data(), 16};
  for (int i = 0; i < frames; ++i) {
    const auto code = penstock_push(pipeline, &tensor, 1, nullptr, nullptr, nullptr);
    ++(code == PENSTOCK_OK ? count.pushed : count.popped);
    count.failures += code == PENSTOCK_OK ? 0 : 1;
  }
}

void pop_all(penstock_pipeline* pipeline, Count& count) {
  penstock_result* result = nullptr;
  while (penstock_pop(pipeline, PENSTOCK_FOR_EVER, &result, nullptr) == PENSTOCK_OK &&
         result != nullptr) {
    ++count.popped;
    penstock_tensor tensor{};
    const bool right = penstock_result_tensor(result, 0, &tensor, nullptr) == PENSTOCK_OK &&
                       static_cast<const float*>(tensor.data)[3] == 2;
    count.failures += right ? 0 : 1;
    penstock_result_free(result);
  }
}

TEST_F(CInterface, ManyThreadsPushPopAndLook) {
  constexpr int kFrames = 500;
  penstock_pipeline* pipeline = nullptr;
  ASSERT_EQ(penstock_load(package_.c_str(), nullptr, 0, &pipeline, nullptr), PENSTOCK_OK);
  std::vector<Count> counts(6);
  {
    std::vector<std::jthread> poppers;
    for (int i = 0; i < 2; ++i) poppers.emplace_back([&, i] { pop_all(pipeline, counts[i]); });
    {
      std::vector<std::jthread> pushers;
      for (int i = 2; i < 5; ++i) {
        pushers.emplace_back([&, i] { push_rows(pipeline, kFrames, counts[i]); });
      }
      pushers.emplace_back([&] {
        for (int i = 0; i < kFrames; ++i) {
          penstock_statistics* statistics = nullptr;
          counts[5].failures += penstock_take_statistics(pipeline, &statistics, nullptr);
          penstock_statistics_free(statistics);
        }
      });
    }
    EXPECT_EQ(penstock_close(pipeline, nullptr), PENSTOCK_OK);
  }
  penstock_free(pipeline);
  Count sum;
  for (const auto& count : counts) {
    sum.pushed += count.pushed;
    sum.popped += count.popped;
    sum.failures += count.failures;
  }
  EXPECT_EQ(sum.failures, 0);
  EXPECT_EQ(sum.pushed, 3U * kFrames);
  EXPECT_EQ(sum.popped, sum.pushed);
}

TEST_F(CInterface, AnotherPackageTakesTheFramesWhileItRuns) {
  penstock_pipeline* pipeline = nullptr;
  ASSERT_EQ(penstock_load(package_.c_str(), nullptr, 0, &pipeline, nullptr), PENSTOCK_OK);
  EXPECT_EQ(penstock_replace(pipeline, package_.c_str(), nullptr), PENSTOCK_OK);
  penstock_error* error = nullptr;
  EXPECT_EQ(penstock_replace(pipeline, items_.c_str(), &error), PENSTOCK_INVALID_ARGUMENT);
  EXPECT_THAT(penstock_error_message(error), ::testing::HasSubstr("items"));
  penstock_error_free(error);
  char* json = nullptr;
  ASSERT_EQ(penstock_plan_json(pipeline, &json, nullptr), PENSTOCK_OK);
  EXPECT_THAT(json, ::testing::HasSubstr("\"stage0\""));
  penstock_text_free(json);
  penstock_free(pipeline);
}

}  // namespace
}  // namespace penstock::c
