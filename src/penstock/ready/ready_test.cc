// Names, settings and edges of ready-made functions; tests/python/test_ready.py has the numbers.
#include "penstock/ready/ready.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/ready/caller.h"
#include "penstock/ready/sheet.h"

namespace penstock::ready {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(std::string_view name, const function::Settings& settings) {
  const auto made = make(name, settings);
  return made ? "" : made.error().message();
}

Result<std::vector<Tensor>> call(std::string_view name, const function::Settings& settings,
                                 const std::vector<Tensor>& inputs) {
  PENSTOCK_TRY(auto function, make(name, settings));
  PENSTOCK_TRY(auto caller, Caller::make(std::move(function)));
  return caller.run(inputs);
}

Tensor grey(std::vector<std::int64_t> dims, std::vector<std::uint8_t> values) {
  Tensor tensor = Tensor::allocate(DType::kU8, std::move(dims));
  std::ranges::copy(values, tensor.as<std::uint8_t>().begin());
  return tensor;
}

TEST(Ready, DeclaresEachFunctionAndSettingOnce) {
  std::set<std::string_view> names;
  for (const auto& declaration : declarations()) {
    EXPECT_TRUE(names.insert(declaration.name).second) << declaration.name;
    EXPECT_TRUE(declaration.says.ends_with('.')) << declaration.name;
    std::set<std::string_view> settings;
    for (const auto& setting : declaration.settings) {
      EXPECT_TRUE(settings.insert(setting.name).second) << setting.name;
      EXPECT_TRUE(setting.says.ends_with('.')) << declaration.name << " " << setting.name;
    }
  }
}

TEST(Ready, WhatHasToBeGivenIsShownWithAnExample) {
  for (const auto& declaration : declarations()) {
    for (const auto& setting : declaration.settings) {
      EXPECT_FALSE(setting.usual.empty() && setting.shown.empty())
          << declaration.name << " " << setting.name;
    }
    const auto found = sheet(declaration.name);
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_FALSE(found->inputs.empty());
    EXPECT_FALSE(found->outputs.empty());
  }
  EXPECT_EQ(sheet("nms")->yaml,
            "nodes:\n  nms:\n    ready: nms\n    options: {classes: 80, count: 8400}\n"
            "    inputs: {boxes: boxes, scores: scores}\n");
}

TEST(Ready, ASummaryEndsWhereTheFirstStatementDoes) {
  EXPECT_EQ(summary(**declared("softmax")), "Scores as probabilities of sum 1");
  EXPECT_EQ(summary({.name = "a", .says = "One (BT.601), two. Three."}), "One (BT.601), two");
  EXPECT_EQ(summary({.name = "a", .says = "One."}), "One");
}

TEST(Ready, UnknownNamesAreRefusedWithThoseThereAre) {
  EXPECT_THAT(refusal("leterbox", {}),
              HasSubstr("no ready-made function 'leterbox'; did you mean "
                        "'letterbox'?; there are: decode, resize, letterbox"));
  EXPECT_EQ(refusal("crop", {{"size", "4"}, {"centres", "true"}}),
            "function 'crop': no setting 'centres'; did you mean 'centre'?; there are: 'size', "
            "'centre', 'at', 'fill', 'channels'");
}

TEST(Ready, SettingsAreRefusedWithWhatTheyTake) {
  EXPECT_EQ(refusal("resize", {}),
            "function 'resize': setting 'size' is missing: Height and width of the result. "
            "Expected height and width, such as 480,640, or one number for both, from 1 to 32768");
  const auto with = [](const std::string& name, const std::string& value) {
    function::Settings settings{{"size", "4"}};
    settings[name] = value;
    return refusal("resize", settings);
  };
  EXPECT_EQ(with("how", "cubic"),
            "function 'resize': setting 'how': expected one of 'nearest', 'linear', 'area', found "
            "'cubic'");
  EXPECT_EQ(with("channels", "5"),
            "function 'resize': setting 'channels': expected a whole number from 1 to 4, found "
            "'5'");
  for (const auto* size : {"0", "1.5", "x", "", "4,4,4", "40000", "4,", "nan", "-3", "1e99"}) {
    EXPECT_THAT(with("size", size), HasSubstr("expected height and width")) << size;
  }
  EXPECT_THAT(refusal("normalise", {{"size", "4"}, {"mean", "1,2"}}),
              HasSubstr("one for each of the 3 channels, found 2"));
  EXPECT_THAT(refusal("normalise", {{"size", "4"}, {"swap", "maybe"}}), HasSubstr("true or false"));
  EXPECT_THAT(refusal("normalise", {{"size", "4"}, {"swap", "true"}, {"channels", "1"}}),
              HasSubstr("expected 3 or 4 channels to swap, found 1"));
}

TEST(Ready, ListsMayStandInBracketsAndOneNumberIsBothSides) {
  const auto made = make("resize", {{"size", "[3, 5]"}});
  ASSERT_TRUE(made) << made.error().message();
  EXPECT_EQ(to_string(made->outputs[0].type), "u8[3,5,3]");
  EXPECT_EQ(to_string(make("resize", {{"size", "7"}})->outputs[0].type), "u8[7,7,3]");
}

TEST(Ready, APictureWithoutPixelsIsRefused) {
  for (const auto* name : {"resize", "letterbox", "crop"}) {
    const auto result = call(name, {{"size", "4"}, {"channels", "1"}}, {grey({0, 3, 1}, {})});
    ASSERT_FALSE(result) << name;
    EXPECT_THAT(result.error().message(), HasSubstr("of 1 to 32768 rows and columns")) << name;
  }
}

TEST(Ready, APlaceOfACropEndsTheMiddle) {
  const auto picture = grey({1, 3, 1}, {1, 2, 3});
  const function::Settings placed{{"size", "1"}, {"channels", "1"}, {"at", "0,2"}};
  EXPECT_THAT(call("crop", placed, {picture})->front().as<std::uint8_t>(), ElementsAre(3));
  auto both = placed;
  both["centre"] = "true";
  EXPECT_EQ(refusal("crop", both),
            "function 'crop': settings 'centre' and 'at': expected one of them, found a part from "
            "the middle that has a place of its own; leave 'centre' out, or 'at'");
}

TEST(Ready, AWindowOfOneSampleKeepsIt) {
  const function::Settings settings{
      {"size", "1"}, {"hop", "1"}, {"most", "2"}, {"weights", "hann"}};
  auto samples = Tensor::allocate(DType::kF32, {2});
  samples.as<float>()[0] = 3;
  samples.as<float>()[1] = -4;
  const auto windows = call("window", settings, {samples});
  ASSERT_TRUE(windows) << windows.error().message();
  EXPECT_THAT(windows->front().as<float>(), ElementsAre(3, -4));
}

TEST(Ready, APictureOverItsBoundIsRefused) {
  const auto result = call("colour", {{"source", "grey"}, {"to", "rgb"}, {"most", "1,2"}},
                           {grey({1, 3, 1}, {1, 2, 3})});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(), HasSubstr("raise the setting that bounds it"));
}

TEST(Ready, OnePixelBecomesAnySize) {
  const auto result = call("resize", {{"size", "2,3"}, {"channels", "1"}}, {grey({1, 1, 1}, {77})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_THAT(result->front().as<std::uint8_t>(), ElementsAre(77, 77, 77, 77, 77, 77));
}

TEST(Ready, AnInputOfAnotherTypeIsRefusedByName) {
  const auto result = call("resize", {{"size", "4"}}, {grey({2, 2, 1}, {1, 2, 3, 4})});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(),
              HasSubstr("input 'image': expected u8[height,width,3], found u8[2,2,1]"));
}

TEST(Ready, UnletterboxRefusesWhatIsNoPlacement) {
  const Tensor boxes = Tensor::allocate(DType::kF32, {1, 4});
  const auto result = call("unletterbox", {}, {boxes, Tensor::allocate(DType::kF32, {6})});
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message(), HasSubstr("with scales over 0"));
}

}  // namespace
}  // namespace penstock::ready
