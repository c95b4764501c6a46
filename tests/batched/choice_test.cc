// How many frames a call takes where measurement is to say: the synthetic backends' costs are
// known.
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/device/topology.h"
#include "penstock/graph/test_support.h"
#include "penstock/session/batch_choice.h"
#include "penstock/session/session.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;

/// A call of the first stage takes as long for several frames; that of the second far longer, as
/// its model for several moves them by another Transpose; the third cannot take several.
constexpr const char* kStages = R"(<ir_version: 8, opset_import: ["" : 17]> net
    (float[1,4] x) => (float[4,1] z)
    { [first] t = Relu(x) [second] u = Transpose(t) [third] z = RandomNormalLike(u) })";
constexpr const char* kCosts = R"({"synthetic_a": {
    "seconds": {"first": 0.002, "second": 0.0002, "third": 0.0002, "Transpose": 0.02}}})";

class BatchChoiceTest : public testing::Test {
 protected:
  void SetUp() override {
    ::setenv("PENSTOCK_PLUGIN_PATH", PENSTOCK_SYNTHETIC_BACKENDS, 1);
    load(kCosts);
    options_.backend = "synthetic_a";
    options_.by = partition::Cuts{{"first", "second"}};
    options_.devices = {{.host = {}, .cpus = {device::inherited_cpus().front()}}};
    options_.batches[""] = {.frames = 4, .measured = true};
  }

  /// The synthetic backends, with these costs.
  void load(const std::string& costs) {
    const auto file = folder_.path() / "costs.json";
    std::ofstream(file) << costs;
    ::setenv("PENSTOCK_SYNTHETIC", file.c_str(), 1);
    backends_ = backend::Registry::load();
  }

  TemporaryFolder folder_;
  backend::Registry backends_;
  partition::SplitOptions options_;
};

TEST_F(BatchChoiceTest, TakesSeveralFramesOnlyWhereThatIsCheaper) {
  const auto graph = graph::import_text(kStages);
  const auto package = folder_.path() / "p";
  const auto chosen = choose_batches(graph, options_, backends_);
  ASSERT_TRUE(chosen) << chosen.error().message();
  const auto& choices = *chosen;
  const auto plan = split_model(graph, options_, {}, package, backends_);
  ASSERT_TRUE(plan) << plan.error().message();

  ASSERT_EQ(choices.size(), 3);
  const auto sizes = ElementsAre(Field(&BatchTrial::frames, 2), Field(&BatchTrial::frames, 4));
  EXPECT_THAT(choices[0].trials, sizes);
  EXPECT_EQ(choices[0].frames, 4);
  EXPECT_THAT(choices[1].trials, sizes);
  EXPECT_EQ(choices[1].frames, 1);
  EXPECT_THAT(choices[2].trials, IsEmpty());
  EXPECT_EQ(choices[2].frames, 1);
  EXPECT_THAT(choices[2].note,
              HasSubstr("node 'third': RandomNormalLike cannot take several frames"));

  EXPECT_EQ(plan->stages[0].batch.frames, 4);
  EXPECT_EQ(plan->stages[1].batch.frames, 1);
  EXPECT_TRUE(fs::exists(package / "stages/0.b4.onnx"));
  EXPECT_FALSE(fs::exists(package / "stages/1.b2.onnx"));
  EXPECT_THAT(plan->stages[1].partitions[0].batched, IsEmpty());
}

TEST_F(BatchChoiceTest, KeepsTheNumbersOfOtherStages) {
  options_.batches = {{"stage0", {.frames = 3, .wait = std::chrono::microseconds(500)}},
                      {"stage2", {.frames = 2, .measured = true}}};
  const auto graph = graph::import_text(kStages);
  const auto plan = split_model(graph, options_, {}, folder_.path() / "p", backends_);
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->stages[0].batch, (plan::Batch{3, std::chrono::microseconds(500)}));
  EXPECT_EQ(plan->stages[1].batch, plan::Batch());
  EXPECT_EQ(plan->stages[2].batch, plan::Batch());
}

TEST_F(BatchChoiceTest, MeasuresOnAnAccelerator) {
  load(R"({"synthetic_a": {"seconds": {"first": 0.002},
                           "accelerator": {"devices": 1, "contexts": 2}}})");
  options_.devices = {{.host = {}, .kind = device::Device::Kind::kCuda, .cpus = {}, .index = 0}};
  options_.batches = {{"stage0", {.frames = 4, .measured = true}}};
  const auto choices = choose_batches(graph::import_text(kStages), options_, backends_);
  ASSERT_TRUE(choices) << choices.error().message();
  ASSERT_EQ(choices->size(), 1);
  EXPECT_EQ(choices->front().frames, 4) << choices->front().note;
}

/// Takes numbers from 1000 to 1399, which are no likely random ones.
constexpr const char* kShelf = R"(<ir_version: 8, opset_import: ["" : 17]> net
    (int64[1] i) => (float[1] y) <int64 hundred = {100}, int64 ten = {10}, float[4] w = {1, 2, 3, 4}>
    { [less] d = Div(i, hundred) [minus] j = Sub(d, ten) [look] g = Gather(w, j)
      [first] y = Relu(g) })";

Tensor index(std::int64_t value) {
  Tensor made = Tensor::allocate(DType::kI64, {1});
  made.as<std::int64_t>()[0] = value;
  return made;
}

TEST_F(BatchChoiceTest, ChecksAndTimesTheFramesThatAreGiven) {
  const auto graph = graph::import_text(kShelf);
  options_.by = partition::Cuts{{"less"}};
  auto without = options_;
  const auto random = choose_batches(graph, without, backends_);
  EXPECT_FALSE(random && !random->back().trials.empty())
      << random->back().note << random->back().frames;
  const std::vector<std::vector<Tensor>> frames{{index(1000)}, {index(1300)}};
  options_.frames = &frames;
  const auto chosen = choose_batches(graph, options_, backends_);
  ASSERT_TRUE(chosen) << chosen.error().message();
  ASSERT_EQ(chosen->size(), 2);
  EXPECT_EQ(chosen->back().trials.size(), 2) << chosen->back().note;
  EXPECT_EQ(chosen->back().frames, 4);
  EXPECT_TRUE(split_model(graph, options_, {}, folder_.path() / "p", backends_));
}

std::size_t files_of_values(const fs::path& folder) {
  std::size_t count = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    count += entry.path().extension() == ".npy" ? 1 : 0;
  }
  return count;
}

TEST_F(BatchChoiceTest, KeepsNoValuesOfAStageThatIsTimed) {
  const auto temporary = folder_.path() / "temporary";
  fs::create_directory(temporary);
  ::setenv("TMPDIR", temporary.c_str(), 1);
  options_.by = partition::Cuts{{"less"}};
  options_.batches = {{"stage0", {.frames = 4, .measured = true}},
                      {"stage1", {.frames = 2, .measured = true}}};
  const std::vector<std::vector<Tensor>> frames{{index(1000)}, {index(1300)}};
  options_.frames = &frames;
  std::vector<std::size_t> seen;
  const ChoiceLimits limits{.stopped = [&] {
    seen.push_back(files_of_values(temporary));
    return false;
  }};
  const auto chosen = choose_batches(graph::import_text(kShelf), options_, backends_, limits);
  ::unsetenv("TMPDIR");
  ASSERT_TRUE(chosen) << chosen.error().message();
  ASSERT_EQ(chosen->size(), 2);
  ASSERT_FALSE(seen.empty());
  EXPECT_EQ(seen.front(), 3) << "of 1, 2 and 4 frames";
  EXPECT_EQ(seen.back(), 2) << "of 1 and 2 frames";
}

TEST_F(BatchChoiceTest, TellsOfADeviceThatIsNotHere) {
  options_.devices = {{.host = "elsewhere", .cpus = {0}}};
  options_.batches = {{"stage0", {.frames = 2, .measured = true}}};
  const auto graph = graph::import_text(kStages);
  const auto choices = choose_batches(graph, options_, backends_);
  ASSERT_TRUE(choices) << choices.error().message();
  ASSERT_EQ(choices->size(), 1);
  EXPECT_EQ(choices->front().note,
            "device elsewhere/cpu:0 is of another machine, and calls are measured on this one "
            "only; 'split' takes a number that is not measured");
  EXPECT_FALSE(options_.batches.at("stage0").measured);
  EXPECT_EQ(options_.batches.at("stage0").frames, 1);
}

}  // namespace
}  // namespace penstock
