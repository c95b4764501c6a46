// Messages for wrong problems and pins, times of transfers, and components of directed graphs.
#include "penstock/planner/problem/problem.h"

#include <cmath>
#include <functional>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/planner/problem/components.h"

namespace penstock::planner {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// Two groups "a" -> "b" on two devices of one type.
Problem small() {
  Problem problem;
  problem.types.push_back({"gpu", {"gpu:0", "gpu:1"}, false, 100, Overlap::kSerial, true});
  problem.modes.push_back({"gpu/fp32", 0, 0});
  problem.groups = {{"a", {0}, {1}, 60}, {"b", {1}, {2}, 70}};
  problem.values = {{"v", 0, {1}, 8, 0.5}};
  problem.order = {{0, 1}};
  return problem;
}

struct Bad {
  std::function<void(Problem&)> change;
  std::string message;
};

TEST(ProblemTest, AcceptsAProblem) {
  EXPECT_TRUE(validate(small()));
}

TEST(ProblemTest, NamesWhatIsWrong) {
  const double nan = std::nan("");
  const std::vector<Bad> cases = {
      {[](Problem& p) { p.groups.clear(); }, "there is no group to plan for"},
      {[](Problem& p) { p.types[0].devices.clear(); }, "there is no device to plan for"},
      {[](Problem& p) { p.types[0].devices[1] = "gpu:0"; }, "device 'gpu:0': listed twice"},
      {[](Problem& p) { p.types[0].memory = -1; }, "device type 'gpu': expected memory"},
      {[](Problem& p) { p.types[0].unlimited = true; }, "unlimited, yet names device 'gpu:0'"},
      {[](Problem& p) { p.modes[0].type = 1; }, "mode 'gpu/fp32': device type 1 is none of the 1"},
      {[=](Problem& p) { p.modes[0].launch = nan; }, "mode 'gpu/fp32': expected a launch cost"},
      {[](Problem& p) { p.groups[1].time = {}; }, "group 'b': expected one time for each of the 1"},
      {[=](Problem& p) { p.groups[1].time = {nan}; }, "group 'b': expected a time of 0 or more"},
      {[](Problem& p) { p.groups[1].time = {-2}; }, "in mode 'gpu/fp32', found -2"},
      {[](Problem& p) { p.groups[1].memory = -2; }, "group 'b': expected 0 or more bytes"},
      {[](Problem& p) { p.groups[1].time = {kInfinite}; }, "group 'b': no device supports it"},
      {[](Problem& p) { p.groups[1].memory = 101; }, "group 'b': needs 101 bytes, more than any"},
      {[](Problem& p) { p.values[0].consumers = {0}; }, "value 'v': group 0 cannot be a consumer"},
      {[](Problem& p) { p.values[0].consumers = {2}; }, "value 'v': group 2 cannot be a consumer"},
      {[](Problem& p) { p.values[0].producer = -1; }, "group -1 cannot be the producer"},
      {[](Problem& p) { p.values[0].bytes = kInfinite; }, "value 'v': expected bytes"},
      {[](Problem& p) { p.links = {{}}; }, "expected a link for each pair of the 1 device types"},
      {[](Problem& p) { p.links = {{{0, 0}}}; }, "link from 'gpu' to 'gpu': expected"},
      {[](Problem& p) { p.order.emplace_back(0, 5); }, "order: the pair (0, 5) names none of"},
      {[](Problem& p) { p.order.emplace_back(1, 0); },
       "has to run before itself, in a circle of 2"},
      {[](Problem& p) { p.colocated = {{0, 7}}; }, "colocated: there is no group 7 among the 2"},
  };
  for (const auto& item : cases) {
    auto problem = small();
    item.change(problem);
    const auto status = validate(problem);
    ASSERT_FALSE(status) << item.message;
    EXPECT_EQ(status.error().code, Code::kInvalidArgument);
    EXPECT_THAT(status.error().message(), HasSubstr(item.message));
  }
}

TEST(ProblemTest, AddsTheTimesOfATransfer) {
  auto problem = small();
  EXPECT_DOUBLE_EQ(transfer_time(problem, problem.values[0], 0, 0), 0.5);
  problem.links = {{{0.25, 4}}};
  EXPECT_DOUBLE_EQ(transfer_time(problem, problem.values[0], 0, 0), 0.5 + 0.25 + 2);
}

TEST(ProblemTest, PinsAGroupToADeviceThatOthersMayUse) {
  auto problem = small();
  problem.links = {{{0.25, 4}}};
  const auto pinned = pin(problem, 1, "gpu:0");
  ASSERT_TRUE(pinned);
  ASSERT_TRUE(validate(*pinned));
  EXPECT_THAT(pinned->types[0].devices, ElementsAre("gpu:1"));
  EXPECT_THAT(pinned->types[1].devices, ElementsAre("gpu:0"));
  EXPECT_THAT(pinned->groups[0].time, ElementsAre(1, 1));
  EXPECT_THAT(pinned->groups[1].time, ElementsAre(kInfinite, 2));
  EXPECT_DOUBLE_EQ(transfer_time(*pinned, pinned->values[0], 1, 0), 2.75);
  const auto again = pin(*pinned, 0, "gpu:0");
  ASSERT_TRUE(again);
  EXPECT_EQ(again->types.size(), 2);
  EXPECT_THAT(again->groups[0].time, ElementsAre(kInfinite, 1));
}

TEST(ProblemTest, RefusesPinsThatCannotBe) {
  EXPECT_EQ(pin(small(), 2, "gpu:0").error().code, Code::kOutOfRange);
  EXPECT_EQ(pin(small(), 0, "gpu:7").error().message(),
            "pin: there is no device 'gpu:7'; expected one of gpu:0, gpu:1");
  EXPECT_EQ(pin(small(), 0, "gpu:7").error().code, Code::kNotFound);
  const auto pinned = pin(small(), 1, "gpu:0");
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pin(*pinned, 1, "gpu:1").error().message(),
            "pin: group 'b' does not run on device 'gpu:1'");
}

TEST(ComponentsTest, NumbersComponentsInTopologicalOrder) {
  const auto found = strong_components(6, {{4, 2}, {2, 4}, {0, 4}, {2, 5}, {5, 1}, {1, 5}, {3, 0}});
  EXPECT_EQ(found[4], found[2]);
  EXPECT_EQ(found[5], found[1]);
  EXPECT_LT(found[3], found[0]);
  EXPECT_LT(found[0], found[4]);
  EXPECT_LT(found[2], found[5]);
  EXPECT_THAT(std::vector({found[3], found[0], found[4], found[5]}),
              UnorderedElementsAre(0, 1, 2, 3));
}

TEST(ComponentsTest, FindsACircle) {
  EXPECT_THAT(find_circle(4, {{0, 1}, {1, 2}, {2, 3}, {0, 3}}), ElementsAre());
  EXPECT_THAT(find_circle(4, {{0, 1}, {1, 2}, {2, 3}, {3, 1}}), ElementsAre(1, 2, 3));
  EXPECT_THAT(find_circle(1, {{0, 0}}), ElementsAre(0));
}

TEST(ComponentsTest, NeedsNoStackForALongChain) {
  Arcs arcs;
  for (int i = 0; i < 200'000; ++i) arcs.emplace_back(i, i + 1);
  EXPECT_EQ(strong_components(200'001, arcs).back(), 200'000);
  arcs.emplace_back(200'000, 0);
  EXPECT_EQ(find_circle(200'001, arcs).size(), 200'001);
}

}  // namespace
}  // namespace penstock::planner
