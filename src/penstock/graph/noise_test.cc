// What is changed on the way, what stays, and that the network is the same but for that.
#include "penstock/graph/noise.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include <gmock/gmock.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// The names of what is multiplied after `seed`'s coins.
std::vector<std::string> changed_by(Graph& graph, std::uint64_t seed = 1) {
  std::vector<std::string> names;
  const auto count = add_rounding_noise(graph, seed);
  for (const auto& node : graph.nodes) {
    const bool is_noise = node.name.ends_with("/noise");
    if (is_noise) names.push_back(graph.value(node.outputs.front()).name);
  }
  EXPECT_EQ(names.size(), count);
  return names;
}

std::string with_header(const std::string& graph, int opset = 20) {
  return concat("<ir_version: 10, opset_import: [\"\" : ", opset, "]>\n", graph);
}

TEST(NoiseTest, ChangesWhatIsRoundedFromAProductOn) {
  auto graph = import_text(with_header(R"(g (float[2,8] x, float[8,4] w) => (float[2,4] y) {
    [before] b = Add(x, x)  [product] p = MatMul(b, w)  [moved] m = Neg(p)  [sum] s = Add(m, m)  [last] y = Sigmoid(s) })"));
  EXPECT_THAT(changed_by(graph), ElementsAre("b/changed", "w/changed", "p", "s"));
  const auto& readers = graph.value(*graph.find_value("p")).consumers;
  ASSERT_EQ(readers.size(), 1U);
  EXPECT_EQ(graph.node(readers.front()).name, "moved");
  EXPECT_EQ(graph.nodes.size(), graph.pipeline_stages.size());
}

TEST(NoiseTest, FactorsAreOneUnitFromOneAndOfEachElementItsOwn) {
  auto graph = import_text(with_header(R"(g (float[2,64] x, float[64,64] w) => (float[2,64] y) {
    p = MatMul(x, w)  s = Softmax(p)  y = Neg(s) })"));
  EXPECT_THAT(changed_by(graph), ElementsAre("x/changed", "w/changed", "p", "s"));
  const auto factors_of = [&](const char* name) {
    return graph.value(*graph.find_value(name)).constant->as<float>();
  };
  const auto of_product = factors_of("p/noise"), of_softmax = factors_of("s/noise");
  ASSERT_EQ(of_product.size(), 64U);
  const auto larger = std::ranges::count(of_product, std::nextafter(1.0F, 2.0F));
  EXPECT_GT(larger, 16);
  EXPECT_LT(larger, 48);
  EXPECT_EQ(std::ranges::count(of_product, 1 - 0x1p-23F), 64 - larger);
  EXPECT_EQ(std::ranges::max(of_softmax), 1) << "one less what has a bound of 1 is never below 0";
  EXPECT_LT(std::ranges::min(of_softmax), 1);
}

TEST(NoiseTest, ChangesWhatIsRoundedInF16) {
  auto graph = import_text(with_header(R"(g (float[2,8] x, float[8,64] v) => (float[2,64] y) {
    h = Cast<to = 10>(x)  w = Cast<to = 10>(v)  p = MatMul(h, w)  s = Exp(p)  y = Cast<to = 1>(s) })"));
  const auto count = add_rounding_noise(graph, 1, DType::kF16);
  EXPECT_EQ(count, 4U);  // What the product reads, it, and the powers.
  const auto& factors = *graph.value(*graph.find_value("s/noise")).constant;
  ASSERT_EQ(factors.dtype(), DType::kF16);
  const auto bits = factors.as<std::uint16_t>();
  const auto larger = std::ranges::count(bits, 0x3C01), smaller = std::ranges::count(bits, 0x3BFF);
  EXPECT_EQ(larger + smaller, 64);
  EXPECT_GT(std::min(larger, smaller), 16);
}

TEST(NoiseTest, MakesNoNameThatTheNetworkHas) {
  auto graph =
      import_text(with_header(R"(g (float[2,8] x, float[8,4] w) => (float[2,4] y, float[2,8] z) {
    "x/changed" = Neg(x)  z = Abs("x/changed")
    p = MatMul(x, w)  "p/rounded" = Abs(p)  y = Neg("p/rounded") })"));
  EXPECT_THAT(changed_by(graph), ElementsAre("x/changed_2", "w/changed", "p"));
  std::set<std::string> names;
  for (const auto& value : graph.values) EXPECT_TRUE(names.insert(value.name).second) << value.name;
}

TEST(NoiseTest, LeavesWhatCountsAsItIs) {
  auto graph = import_text(with_header(R"(g (float[2,8] x, float[8,4] w) => (float[2,4] y) {
    p = MatMul(x, w)  whole = Floor(p)  next = Add(whole, whole)  y = Neg(next) })"));
  EXPECT_THAT(changed_by(graph), ElementsAre("x/changed", "w/changed", "p"));
}

/// E[x^2] - E[x]^2 of what is far from 0: each element of x^2 is rounded, and the sums of these.
TEST(NoiseTest, ChangesWhatIsAddedOfTheNetworksInputs) {
  auto graph = import_text(with_header(R"(g (float[2,8] x) => (float[2,1] y) {
    a = Constant <value = int64[1] {1}> ()  squares = Mul(x, x)  m2 = ReduceMean(squares, a)
    m = ReduceMean(x, a)  mm = Mul(m, m)  v = Sub(m2, mm)  y = Neg(v) })"));
  EXPECT_THAT(changed_by(graph), ElementsAre("squares/changed", "m2", "x/changed", "m", "mm", "v"));
  EXPECT_EQ(graph.value(*graph.find_value("squares")).consumers.size(), 1U);
}

TEST(NoiseTest, LeavesSumsOfWhatCounts) {
  auto graph = import_text(with_header(R"(g (bool[2,8] x) => (float[2,1] y) {
    a = Constant <value = int64[1] {1}> ()  ones = Cast <to = 1> (x)  n = ReduceSum(ones, a)  y = Neg(n) })"));
  EXPECT_THAT(changed_by(graph), IsEmpty());
  auto floored = import_text(with_header(R"(g (float[2,8] x) => (float[2,1] y) {
    a = Constant <value = int64[1] {1}> ()  whole = Floor(x)  n = ReduceSum(whole, a)  y = Neg(n) })"));
  EXPECT_THAT(changed_by(floored), IsEmpty());
}

TEST(NoiseTest, LeavesQuantisedAndOldNetworksAndThoseWithoutProducts) {
  auto steps =
      import_text(with_header(R"(g (float[2,8] x, float[8,4] w, float size) => (float[2,4] y) {
    p = MatMul(x, w)  q = QuantizeLinear(p, size)  y = DequantizeLinear(q, size) })"));
  EXPECT_THAT(changed_by(steps), IsEmpty());
  const auto* const plain =
      "g (float[2,8] x, float[8,4] w) => (float[2,4] y) { p = MatMul(x, w)  y = Neg(p) }";
  auto old = import_text(with_header(plain, 6));
  EXPECT_THAT(changed_by(old), IsEmpty());
  auto recent = import_text(with_header(plain));
  EXPECT_THAT(changed_by(recent), ElementsAre("x/changed", "w/changed", "p"));
  auto sums =
      import_text(with_header("g (float[2,8] x) => (float[2,8] y) { s = Add(x, x)  y = Neg(s) }"));
  EXPECT_THAT(changed_by(sums), IsEmpty());
}

}  // namespace
}  // namespace penstock::graph
