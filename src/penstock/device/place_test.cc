// Texts of place and sharing, and who is nearest, on made-up machines of nodes and siblings.
#include "penstock/device/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/made_up_machine.h"

namespace penstock::device {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Topology machine(const char* description) {
  const MadeUpMachine made_up(description);
  auto topology = read_topology();
  EXPECT_TRUE(topology) << topology.error().message();
  return topology ? *std::move(topology) : Topology();
}

std::vector<Device> devices(const char* text) {
  auto parsed = parse_devices(text);
  EXPECT_TRUE(parsed);
  return parsed ? *std::move(parsed) : std::vector<Device>();
}

std::string shared(const Topology& topology, const char* text) {
  auto others = devices(text);
  const auto device = others.front();
  others.erase(others.begin());
  return shared_with(topology, device, others);
}

constexpr const char* kTwoNodes = "pack:2 numa:1 l3:1 core:32 pu:1";
constexpr const char* kSiblings = "numa:1 l2:1 core:4 pu:2";

TEST(PlaceTest, SiblingsAreLessThanTwoCores) {
  const auto topology = machine(kSiblings);
  EXPECT_THAT(place_of(topology, devices("cpu:0-1").front()), HasSubstr("2k0/1cores"));
  EXPECT_THAT(place_of(topology, devices("cpu:0+2").front()), HasSubstr("2k0/2cores"));
}

TEST(PlaceTest, CpusOfTwoNodesAreNotLikeTwoOfOne) {
  const auto topology = machine(kTwoNodes);
  EXPECT_EQ(place_of(topology, devices("cpu:0-1").front()),
            place_of(topology, devices("cpu:40-41").front()));
  EXPECT_NE(place_of(topology, devices("cpu:0-1").front()),
            place_of(topology, devices("cpu:0+32").front()));
}

TEST(PlaceTest, ANeighbourOfTheOtherNodeSharesNothing) {
  const auto topology = machine(kTwoNodes);
  EXPECT_THAT(shared(topology, "cpu:0,cpu:1"), HasSubstr("L3:1 node:1"));
  EXPECT_EQ(shared(topology, "cpu:0,cpu:32"), "");
}

TEST(PlaceTest, TheNearestShareTheCoreThenTheNode) {
  const auto two_nodes = machine(kTwoNodes);
  const auto others = devices("cpu:0,cpu:1,cpu:2,cpu:32,cpu:33,cpu:34");
  EXPECT_THAT(nearest(two_nodes, devices("cpu:35").front(), others, 2),
              ElementsAre(others[3], others[4]));
  EXPECT_EQ(nearest(two_nodes, devices("cpu:35").front(), others, 6), others);
  const auto siblings = machine(kSiblings);
  const auto rest = devices("cpu:0,cpu:1,cpu:2,cpu:4,cpu:5");
  EXPECT_THAT(nearest(siblings, devices("cpu:3").front(), rest, 1), ElementsAre(rest[2]));
}

TEST(PlaceTest, ASiblingSharesTheCore) {
  const auto topology = machine(kSiblings);
  EXPECT_THAT(shared(topology, "cpu:0,cpu:1"), HasSubstr("core:1 "));
  EXPECT_THAT(shared(topology, "cpu:0,cpu:2"), testing::Not(HasSubstr("core")));
}

TEST(PlaceTest, DevicesAreOfOneKindWhereTheyLieAlike) {
  const auto four = machine("numa:1 core:4 pu:1");
  const auto kinds = kinds_of(four, devices("cpu:0,cpu:1,cpu:2-3"));
  EXPECT_EQ(kinds[0], kinds[1]);
  EXPECT_NE(kinds[0], kinds[2]);
}

TEST(PlaceTest, ADeviceWhoseSiblingIsBusyIsOfAnotherKind) {
  const auto topology = machine(kSiblings);
  const auto kinds = kinds_of(topology, devices("cpu:0,cpu:1,cpu:2"));
  EXPECT_EQ(kinds[0], kinds[1]);
  EXPECT_NE(kinds[0], kinds[2]);  // Alone on its core.
}

TEST(PlaceTest, FastAndSlowCoresAreOfTwoKinds) {
  auto topology = machine("numa:1 core:4 pu:1");
  topology.cpus[2].kind = topology.cpus[3].kind = 1;
  const auto kinds = kinds_of(topology, devices("cpu:0,cpu:1,cpu:2,cpu:3"));
  EXPECT_EQ(kinds[0], kinds[1]);
  EXPECT_NE(kinds[1], kinds[2]);
  EXPECT_EQ(kinds[2], kinds[3]);
}

}  // namespace
}  // namespace penstock::device
