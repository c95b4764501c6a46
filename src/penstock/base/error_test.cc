// Errors with several places: the sentences that they give, and how a place is found in them.
#include "penstock/base/error.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include <gtest/gtest.h>

namespace penstock {
namespace {

Error bad_pads() {
  return invalid_argument("pads: expected ", 4, ", found ", 3);
}

TEST(Error, IsItsReasonWhereItHasNoPlace) {
  EXPECT_EQ(bad_pads().message(), "pads: expected 4, found 3");
  EXPECT_EQ(Error{}.message(), "");
}

TEST(Error, NamesItsPlacesFromTheOutermostIn) {
  const Error error = bad_pads()
                          .within({Where::kOperator, "Conv"})
                          .within({Where::kNode, "conv1"})
                          .within({Where::kItem, 2})
                          .within({Where::kFrame, std::uint64_t{3}})
                          .within({Where::kStage, "head"});
  EXPECT_EQ(error.message(),
            "stage 'head': frame 3: item 2: node 'conv1' (Conv): pads: expected 4, found 3");
  EXPECT_EQ(error.reason, "pads: expected 4, found 3");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  const std::vector<Where> places{{Where::kStage, "head"},
                                  {Where::kFrame, 3},
                                  {Where::kItem, 2},
                                  {Where::kNode, "conv1"},
                                  {Where::kOperator, "Conv"}};
  EXPECT_EQ(error.places, places);
}

TEST(Error, NamesALineWithItsFile) {
  const std::vector<Where> line{{Where::kFile, "app.yaml"}, {Where::kLine, 12}};
  EXPECT_EQ(bad_pads().within({Where::kNode, "crop"}).within(line).message(),
            "app.yaml:12: node 'crop': pads: expected 4, found 3");
  EXPECT_EQ(bad_pads().within({Where::kFile, "app.yaml"}).message(),
            "file 'app.yaml': pads: expected 4, found 3");
  EXPECT_EQ(bad_pads().within({Where::kLine, 12}).message(), "line 12: pads: expected 4, found 3");
}

TEST(Error, SaysHowLongWasWaited) {
  const Where timeout{Where::kTimeoutNs, 1'500'000};
  EXPECT_EQ(invalid_argument("pop one").within(timeout).within("push: no room").message(),
            "push: no room within 1.5 ms: pop one");
  EXPECT_EQ(invalid_argument("pop one").within(timeout).message(), "within 1.5 ms: pop one");
}

TEST(Error, TakesPlacesInWordsOfTheirOwn) {
  EXPECT_EQ(bad_pads().within("--pin").message(), "--pin: pads: expected 4, found 3");
  EXPECT_EQ(bad_pads().within({Where::kWay, "reference"}).message(),
            "reference: pads: expected 4, found 3");
}

TEST(Error, KeepsItsPlacesWhereMoreIsSaid) {
  const Error error = bad_pads().within({Where::kModel, "a.onnx"}).adding("; see 'penstock show'");
  EXPECT_EQ(error.message(), "model 'a.onnx': pads: expected 4, found 3; see 'penstock show'");
  EXPECT_EQ(error.places.size(), 1U);
}

TEST(Error, FindsTheOutermostPlaceOfAKind) {
  Error error = bad_pads()
                    .within({Where::kNode, "in"})
                    .within({Where::kFrame, 7})
                    .within({Where::kNode, "out"});
  ASSERT_NE(error.find(Where::kNode), nullptr);
  EXPECT_EQ(error.find(Where::kNode)->name, "out");
  EXPECT_EQ(error.find(Where::kFrame)->number, 7U);
  EXPECT_EQ(error.find(Where::kStage), nullptr);
}

TEST(Error, SpellsEveryKindDifferently) {
  std::vector<std::string_view> seen;
  for (auto kind = 0; kind <= static_cast<int>(Where::kTimeoutNs); ++kind) {
    const auto spelling = to_string(static_cast<Where::Kind>(kind));
    EXPECT_EQ(std::ranges::find(seen, spelling), seen.end()) << spelling;
    seen.push_back(spelling);
  }
}

TEST(Error, IsMovedWithoutACopyOrAThrow) {
  EXPECT_TRUE(std::is_nothrow_move_constructible_v<Error>);
  EXPECT_TRUE(std::is_nothrow_move_assignable_v<Error>);
  EXPECT_TRUE(std::is_nothrow_default_constructible_v<Error>);
}

TEST(Error, LeavesNumbersWhole) {
  const auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(bad_pads().within({Where::kFrame, most}).message(),
            "frame 18446744073709551615: pads: expected 4, found 3");
}

}  // namespace
}  // namespace penstock
