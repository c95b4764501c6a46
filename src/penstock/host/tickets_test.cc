// Tensors are pulled as often as was said, then freed: with broken pulls, owners and two threads.
#include "penstock/host/tickets.h"

#include <atomic>
#include <thread>

#include <gtest/gtest.h>

#include "penstock/base/secret.h"

namespace penstock::host {
namespace {

constexpr Owner kOwner = 1, kOther = 2;

Tensor tensor_of(float value) {
  Tensor tensor = Tensor::allocate(DType::kF32, {1});
  tensor.as<float>()[0] = value;
  return tensor;
}

Tensor of_bytes(std::size_t bytes) {
  return Tensor::allocate(DType::kU8, {static_cast<std::int64_t>(bytes)});
}

float pull_value(Tickets& tickets, const std::string& id) {
  auto pull = tickets.pull(id);
  if (!pull) return -1;
  pull->finish();
  return pull->tensor().as<float>()[0];
}

TEST(TicketsTest, ATensorIsPulledOnceThenFreed) {
  Tickets tickets(1000);
  const auto id = tickets.keep(kOwner, tensor_of(7), 1);
  ASSERT_TRUE(id);
  EXPECT_EQ(id->size(), kSecretBytes);
  EXPECT_EQ(tickets.bytes(), 4U);
  EXPECT_EQ(pull_value(tickets, *id), 7);
  EXPECT_EQ(tickets.bytes(), 0U);
  EXPECT_EQ(tickets.pull(*id).error().code, Code::kNotFound);
}

TEST(TicketsTest, APullThatBreaksDoesNotCount) {
  Tickets tickets(1000);
  const auto id = tickets.keep(kOwner, tensor_of(7), 1);
  {
    const auto broken = tickets.pull(*id);
  }
  EXPECT_EQ(pull_value(tickets, *id), 7);
}

TEST(TicketsTest, OneReaderHasItAtATime) {
  Tickets tickets(1000);
  const auto id = tickets.keep(kOwner, tensor_of(7), 1);
  auto first = tickets.pull(*id);
  EXPECT_EQ(tickets.pull(*id).error().code, Code::kNotFound);
  first->finish();
  EXPECT_EQ(tickets.bytes(), 0U);
}

TEST(TicketsTest, AsManyPullItAsWereSaid) {
  Tickets tickets(1000);
  const auto id = tickets.keep(kOwner, tensor_of(7), 2);
  EXPECT_EQ(pull_value(tickets, *id), 7);
  EXPECT_EQ(pull_value(tickets, *id), 7);
  EXPECT_EQ(pull_value(tickets, *id), -1);
}

TEST(TicketsTest, OnlyTheOwnerReleases) {
  Tickets tickets(1000);
  const auto id = tickets.keep(kOwner, tensor_of(7), 1);
  tickets.release(kOther, {*id});
  EXPECT_EQ(tickets.count(kOwner), 1U);
  tickets.release(kOwner, {*id, "no ticket", *id});
  EXPECT_EQ(tickets.count(kOwner), 0U);
  EXPECT_EQ(tickets.bytes(), 0U);
}

TEST(TicketsTest, WithItsOwnerAllGo) {
  Tickets tickets(1000);
  const auto own = tickets.keep(kOwner, tensor_of(1), 1);
  const auto also = tickets.keep(kOwner, tensor_of(2), 1);
  const auto other = tickets.keep(kOther, tensor_of(3), 1);
  tickets.release_all(kOwner);
  EXPECT_EQ(pull_value(tickets, *own), -1);
  EXPECT_EQ(pull_value(tickets, *also), -1);
  EXPECT_EQ(pull_value(tickets, *other), 3);
}

TEST(TicketsTest, WhatIsReleasedWhileItIsPulledIsStillRead) {
  Tickets tickets(1000);
  const auto id = tickets.keep(kOwner, tensor_of(7), 1);
  auto pull = tickets.pull(*id);
  tickets.release_all(kOwner);
  EXPECT_EQ(pull->tensor().as<float>()[0], 7);
  pull->finish();
  EXPECT_EQ(tickets.bytes(), 0U);
}

TEST(TicketsTest, BytesAreBounded) {
  Tickets tickets(100);
  const auto first = tickets.keep(kOwner, of_bytes(60), 1);
  ASSERT_TRUE(first);
  EXPECT_EQ(tickets.keep(kOther, of_bytes(60), 1).error().code, Code::kResourceExhausted);
  tickets.release(kOwner, {*first});
  EXPECT_TRUE(tickets.keep(kOther, of_bytes(60), 1));
}

TEST(TicketsTest, AnEmptyTensorHasATicketToo) {
  Tickets tickets(0);
  const auto id = tickets.keep(kOwner, of_bytes(0), 1);
  ASSERT_TRUE(id);
  auto pull = tickets.pull(*id);
  ASSERT_TRUE(pull);
  EXPECT_EQ(pull->tensor().bytes(), 0U);
}

TEST(TicketsTest, OfManyWhoPullAtOnceOneGetsIt) {
  Tickets tickets(1000);
  for (int round = 0; round < 100; ++round) {
    const auto id = *tickets.keep(kOwner, tensor_of(7), 1);
    std::atomic<int> got = 0;
    const auto reader = [&] { got += pull_value(tickets, id) == 7 ? 1 : 0; };
    std::thread first(reader), second(reader);
    first.join();
    second.join();
    EXPECT_EQ(got, 1);
    EXPECT_EQ(tickets.bytes(), 0U);
  }
}

}  // namespace
}  // namespace penstock::host
