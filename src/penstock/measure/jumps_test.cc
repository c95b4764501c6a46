// Verdicts on jumps from invented counts and sizes of differences.
#include "penstock/measure/jumps.h"

#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::measure {
namespace {

/// Of a thousand values, each of those outside by `error`.
Differences some(double share, double error) {
  const auto outside = static_cast<std::size_t>(std::lround(share * 1000));
  return {1000, outside, static_cast<double>(outside) * error * error, outside > 0 ? error : 0};
}

/// A tenth to a third of the values jump, by 0.1; bf16 makes three quarters jump; values are
/// near 3.
OwnJumps jumping() {
  OwnJumps own;
  for (const double share : {0.1, 0.2, 0.3, 0.2}) own.selves.push_back(some(share, 0.1));
  own.narrow = some(0.75, 0.15);
  own.frames = some(0.95, 3);
  own.faults = {{some(1, 3), some(1, 3)}, {some(0.02, 2), some(0.02, 0.1)}};
  return own;
}

FoundJumps found(double share, double error) {
  return {.all = some(share, error), .differing = 8, .strange = 0};
}

Likeness likeness(const FoundJumps& found, const OwnJumps& own) {
  return judge_jumps(found, own).likeness;
}

TEST(Jumps, AreTheReferencesOwnWhereTheyAreAsOftenAndAsFar) {
  for (const double share : {0.001, 0.2, 0.4}) {
    EXPECT_EQ(likeness(found(share, 0.12), jumping()), Likeness::kOwn) << share;
  }
}

TEST(Jumps, AreOpenWhereTheyGoNearlyAsFarAsThoseOfBf16) {
  EXPECT_EQ(likeness(found(0.2, 0.13), jumping()), Likeness::kOpen);
  auto own = jumping();
  own.narrow = some(0.75, 0.05);  // No further than the reference's own.
  EXPECT_EQ(likeness(found(0.2, 0.1), own), Likeness::kOwn);
  EXPECT_EQ(likeness(found(0.2, 0.11), own), Likeness::kOpen);
  own.narrow = some(0.75, 0.1);
  EXPECT_EQ(likeness(found(0.2, 0.10002), own), Likeness::kOwn);  // Steps of one size.
}

TEST(Jumps, AreAFaultWhereTheyGoFurtherOrAreMoreOften) {
  EXPECT_EQ(likeness(found(0.02, 0.21), jumping()), Likeness::kNone);
  EXPECT_EQ(likeness(found(0.02, std::numeric_limits<double>::infinity()), jumping()),
            Likeness::kNone);
  EXPECT_EQ(likeness(found(0.75, 0.15), jumping()), Likeness::kNone);  // As bf16.
}

TEST(Jumps, AreAFaultInFramesInWhichTheReferenceIsSteady) {
  auto here = found(0.1, 0.1);
  here.strange = 2;
  EXPECT_EQ(likeness(here, jumping()), Likeness::kOwn);
  here.strange = 3;
  EXPECT_EQ(likeness(here, jumping()), Likeness::kNone);
}

TEST(Jumps, OfFewFramesNeedNotBeThoseOfOneDisturbedReference) {
  auto own = jumping();
  own.selves.assign(11, some(0, 0));
  own.selves.insert(own.selves.end(), {some(0.04, 0.1), some(0.04, 0.1), some(0.04, 0.1)});
  own.selves.push_back(some(0.025, 0.1));  // In another frame.
  own.most_in_frame = 0.8;
  auto here = found(0.065, 0.1);
  here.differing = 2;
  here.frames = 20;
  EXPECT_EQ(likeness(here, own), Likeness::kOwn);
  here.frames = 10;
  EXPECT_EQ(likeness(here, own), Likeness::kNone);
  here.frames = 20;
  here.all = some(0.085, 0.1);  // More than the frames could have.
  EXPECT_EQ(likeness(here, own), Likeness::kNone);
}

TEST(Jumps, AreAFaultWhereTheReferenceHasNone) {
  OwnJumps own = jumping();
  for (auto& self : own.selves) self = some(0, 0);
  EXPECT_EQ(likeness(found(0.001, 1e-3), own), Likeness::kNone);
  own.selves.clear();
  EXPECT_EQ(likeness(found(0.001, 1e-3), own), Likeness::kNone);
}

TEST(Jumps, AreOpenWhereBf16JumpsAsOften) {
  auto own = jumping();
  own.narrow = some(0.3, 0.1);
  EXPECT_EQ(likeness(found(0.1, 0.1), own), Likeness::kOpen);
  own.narrow = {};  // It could not be asked.
  EXPECT_EQ(likeness(found(0.1, 0.1), own), Likeness::kOpen);
}

TEST(Jumps, AreOpenWhereAFaultWouldLookTheSame) {
  auto own = jumping();
  own.faults.push_back({some(0.02, 0.12), some(0.02, 0.12), some(0.02, 1)});
  EXPECT_EQ(likeness(found(0.1, 0.1), own), Likeness::kOpen);
}

TEST(Jumps, AreTheReferencesOwnWhereAWrongBlockIsSeenInHalfOfItsPlaces) {
  auto own = jumping();
  own.faults.push_back({some(0.02, 0.12), some(0.02, 0.13), some(0.02, 1), some(0.02, 0.1)});
  EXPECT_EQ(likeness(found(0.1, 0.1), own), Likeness::kOwn);
  own.faults.back().push_back(some(0.02, 0.1));
  EXPECT_EQ(likeness(found(0.1, 0.1), own), Likeness::kOpen);
}

TEST(Jumps, AreOpenWhereFramesDifferByHardlyMore) {
  auto own = jumping();
  own.frames = some(0.95, 0.4);
  EXPECT_EQ(likeness(found(0.1, 0.1), own), Likeness::kOpen);
}

TEST(Jumps, AreTheReferencesOwnWhereAnotherReferenceHasTheSame) {
  auto here = found(0.7, 0.15);
  here.from_others = {some(0.7, 0.2), some(0.002, 0.1)};
  EXPECT_EQ(likeness(here, jumping()), Likeness::kNone);
  here.rate = 0.002;
  EXPECT_EQ(likeness(here, jumping()), Likeness::kOwn);
  here.from_others = {{}};  // It failed.
  EXPECT_EQ(likeness(here, jumping()), Likeness::kNone);
}

TEST(Jumps, GoAsFarAsThoseOfAReferenceThatIsAStranger) {
  auto own = jumping();
  own.selves.push_back(some(0.33, 40));
  auto here = found(0.33, 40);
  here.from_others = {some(0, 0)};
  EXPECT_EQ(likeness(here, own), Likeness::kOwn);
  EXPECT_EQ(judge_jumps(here, own).most_size, 40);
  EXPECT_GT(judge_jumps(here, own).share, 0.33);
  here.from_others = {some(0.002, 40)};
  here.rate = 0.002;
  EXPECT_LT(judge_jumps(here, own).most_size, 40);
}

TEST(Jumps, AreThoseOfSettingsThatComputeNothingElse) {
  auto own = jumping();
  own.selves.push_back(some(0.33, 40));
  EXPECT_EQ(likeness(found(0.2, 0.12), own), Likeness::kOwn);
  EXPECT_EQ(likeness(found(0.02, 5), own), Likeness::kNone);
  own.frames = some(0.95, 0.4);  // They could not be told apart without it either.
  EXPECT_EQ(likeness(found(0.02, 5), own), Likeness::kOpen);
}

TEST(Jumps, OfMoreThanHalfOfTheValuesAreOpenAtMost) {
  auto own = jumping();
  for (auto& self : own.selves) self = some(0.45, 0.1);
  own.narrow = some(1, 0.2);
  EXPECT_EQ(likeness(found(0.5, 0.1), own), Likeness::kOwn);
  EXPECT_EQ(likeness(found(0.6, 0.1), own), Likeness::kOpen);
  EXPECT_EQ(likeness(found(0.8, 0.1), own), Likeness::kNone);  // The ceiling, whatever it does.
}

}  // namespace
}  // namespace penstock::measure
