// Which inputs are switches in small models whose If or Loop depends on them.
#include "penstock/graph/switches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> switches(const std::string& inputs, const std::string& condition) {
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g ()" + inputs + R"() => (float[2] y)
    <int64 known = {16000}, int64[0] none = {}> {
      )" + condition + R"(
      y = If (c) <
        then_branch = fast () => (float[2] a) { a = Exp(x) },
        else_branch = slow () => (float[2] b) { b = Neg(x) }>
    })");
  return names_of(graph, switches_of(graph));
}

TEST(Switches, AreTheNumbersThatABranchHangsOn) {
  EXPECT_THAT(switches("float[2] x, int64 sr", "c = Equal(sr, known)"), ElementsAre("sr"));
  EXPECT_THAT(switches("float[2] x, int64[1] sr", "s = Reshape(sr, none) c = Equal(s, known)"),
              ElementsAre("sr"));
  EXPECT_THAT(switches("bool fast, float[2] x, bool wanted", "c = And(fast, wanted)"),
              ElementsAre("fast", "wanted"));
}

TEST(Switches, AreNoInputsThatAreData) {
  EXPECT_THAT(
      switches("float[2] x, int64[2] ids", "s = ReduceSum<keepdims = 0>(ids) c = Equal(s, known)"),
      IsEmpty());
  EXPECT_THAT(switches("float[2] x, bool wanted",
                       R"(s = ReduceSum<keepdims = 0>(x) i = Cast<to = 7>(s) e = Equal(i, known)
                       c = And(e, wanted))"),
              IsEmpty());
}

TEST(Switches, AreFloatsThatAreComparedWithOneValue) {
  const std::string rate = "k = Cast<to = 1>(known) e = Equal(sr, k) ";
  EXPECT_THAT(switches("float[2] x, float sr", rate + "c = Not(e)"), ElementsAre("sr"));
  EXPECT_THAT(switches("float[2] x, double[1] sr",
                       "f = Cast<to = 7>(sr) s = Reshape(f, none) c = Equal(s, known)"),
              ElementsAre("sr"));
  EXPECT_THAT(switches("float[2] x, float sr, bool wanted", rate + "c = And(e, wanted)"),
              ElementsAre("sr", "wanted"));
  EXPECT_THAT(switches("float[2] x, float level", "k = Cast<to = 1>(known) c = Greater(level, k)"),
              IsEmpty());
  EXPECT_THAT(switches("float[2] x, float[2] sr",
                       "s = ReduceSum<keepdims = 0>(sr) k = Cast<to = 1>(known) c = Equal(s, k)"),
              IsEmpty());
}

TEST(Switches, AreTheCountsOfLoops) {
  const auto graph = import_text(R"(<ir_version: 8, opset_import: ["" : 17]>
    g (float[2] x, int64 times) => (float[2] y)
    <bool true = {1}> {
      y = Loop (times, true, x) <body = step (int64 i, bool c, float[2] in) => (bool d, float[2] out) {
        d = Identity(c) out = Exp(in) }>
    })");
  EXPECT_THAT(names_of(graph, switches_of(graph)), ElementsAre("times"));
}

}  // namespace
}  // namespace penstock::graph
