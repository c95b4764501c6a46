// The offset of another clock and its error, from invented times of messages there and back.
#include "penstock/grpc/client/peer_clock.h"

#include <cstdlib>

#include <gtest/gtest.h>

namespace penstock::grpc {
namespace {

TEST(PeerClock, TellsNothingBeforeAnythingWentThereAndBack) {
  EXPECT_FALSE(PeerClock().offset());
}

TEST(PeerClock, SharesTheWayBetweenBothDirections) {
  PeerClock clock;
  clock.note(1000, 501'050, 501'060, 1110);  // 50 there, 10 at it, 50 back; 500,000 ahead.
  EXPECT_EQ(clock.offset()->ahead_ns, 500'000);
  EXPECT_EQ(clock.offset()->error_ns, 50);
}

TEST(PeerClock, TheErrorHoldsHoweverUnevenTheWayWas) {
  PeerClock clock;
  clock.note(1000, 501'090, 501'100, 1110);  // 90 there, 10 back.
  const auto found = *clock.offset();
  EXPECT_LE(std::abs(found.ahead_ns - 500'000), found.error_ns);
}

TEST(PeerClock, TheShortestWayTellsBest) {
  PeerClock clock;
  clock.note(0, 5000, 5000, 9000);
  clock.note(10'000, 10'105, 10'105, 10'010);
  clock.note(20'000, 27'000, 27'000, 29'000);
  EXPECT_EQ(clock.offset()->ahead_ns, 100);
  EXPECT_EQ(clock.offset()->error_ns, 5);
}

TEST(PeerClock, WhatWasLongAgoTellsNothingAnyMore) {
  PeerClock clock;
  clock.note(0, 100, 100, 0);
  for (int i = 0; i < 40; ++i) clock.note(0, 1010, 1010, 20);
  EXPECT_EQ(clock.offset()->ahead_ns, 1000);
}

}  // namespace
}  // namespace penstock::grpc
