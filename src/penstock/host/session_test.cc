// Secrets, leases and bounds of sessions at invented times, and what a session holds until its end.
#include "penstock/host/session.h"

#include <gtest/gtest.h>

namespace penstock::host {
namespace {

using std::chrono::seconds;

/// Times since some begin.
Clock::time_point at(int s) {
  return Clock::time_point(seconds(1000 + s));
}

TEST(SessionsTest, ASessionIsFoundByItsSecret) {
  Sessions sessions(2);
  const auto opened = sessions.open("", "test", seconds(5), at(0));
  ASSERT_TRUE(opened);
  EXPECT_EQ(*sessions.find((*opened)->id(), ""), *opened);
  EXPECT_EQ(sessions.find("guess", "").error().code, Code::kNotFound);
}

TEST(SessionsTest, AnotherClientDoesNotFindIt) {
  Sessions sessions(2);
  const auto opened = sessions.open("camera", "test", seconds(5), at(0));
  EXPECT_EQ(sessions.find((*opened)->id(), "thief").error().code, Code::kNotFound);
  EXPECT_TRUE(sessions.find((*opened)->id(), "camera"));
}

TEST(SessionsTest, ASessionLivesForItsLease) {
  Sessions sessions(2);
  const auto opened = sessions.open("", "test", seconds(5), at(0));
  EXPECT_TRUE(sessions.expire(at(4)).empty());
  EXPECT_EQ(sessions.expire(at(5)).size(), 1U);
  EXPECT_FALSE(sessions.find((*opened)->id(), ""));
}

TEST(SessionsTest, ABeatRenewsTheLease) {
  Sessions sessions(2);
  const auto opened = sessions.open("", "test", seconds(5), at(0));
  EXPECT_TRUE(sessions.beat(**opened, at(4)));
  EXPECT_TRUE(sessions.expire(at(8)).empty());
  EXPECT_EQ(sessions.expire(at(9)).size(), 1U);
  EXPECT_FALSE(sessions.beat(**opened, at(9)));
}

TEST(SessionsTest, SomeExpireWhileOthersGoOn) {
  Sessions sessions(2);
  const auto brief = sessions.open("", "brief", seconds(1), at(0));
  const auto patient = sessions.open("", "patient", seconds(10), at(0));
  const auto expired = sessions.expire(at(3));
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired.front(), *brief);
  EXPECT_TRUE(sessions.find((*patient)->id(), ""));
}

TEST(SessionsTest, TheirNumberIsBounded) {
  Sessions sessions(1);
  const auto opened = sessions.open("", "one", seconds(5), at(0));
  EXPECT_EQ(sessions.open("", "two", seconds(5), at(0)).error().code, Code::kResourceExhausted);
  EXPECT_NE(sessions.close(**opened), nullptr);
  EXPECT_EQ(sessions.close(**opened), nullptr);
  EXPECT_TRUE(sessions.open("", "two", seconds(5), at(0)));
}

TEST(SessionsTest, NumbersDoNotComeAgain) {
  Sessions sessions(1);
  const auto first = sessions.open("", "one", seconds(5), at(0));
  sessions.close(**first);
  EXPECT_NE((*sessions.open("", "two", seconds(5), at(0)))->number(), (*first)->number());
}

TEST(SessionTest, HoldsContentsUntilItsEnd) {
  Session session(1, "id", "", "test", seconds(5));
  const auto content = std::make_shared<const Content>(Content{"folder/hash", 3});
  session.hold(content);
  session.hold(content);
  EXPECT_EQ(content.use_count(), 2);
  session.end();
  EXPECT_EQ(content.use_count(), 1);
  session.hold(content);
  EXPECT_EQ(content.use_count(), 1);
}

TEST(SessionTest, AStageOpenedTooLateIsRefused) {
  Session session(1, "id", "", "test", seconds(5));
  EXPECT_EQ(session.stage(1).error().code, Code::kNotFound);
  session.end();
  EXPECT_EQ(session.add(nullptr).error().code, Code::kCancelled);
}

TEST(SessionTest, KnowsItsPeers) {
  Session session(1, "id", "", "test", seconds(5));
  EXPECT_FALSE(session.has_peer("a:1"));
  session.set_peers({"a:1"});
  EXPECT_TRUE(session.has_peer("a:1"));
  session.set_peers({"b:1"});
  EXPECT_FALSE(session.has_peer("a:1"));
}

}  // namespace
}  // namespace penstock::host
