// Bytes that are no model, or hardly one: the importer answers with a sentence, never with a crash.
#include <random>

#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"
#include "tests/fuzz/import_fuzz.h"

namespace penstock::graph {
namespace {

std::string seed_model() {
  return bytes_of_text(R"(
    <ir_version: 10, opset_import: ["" : 20, "local" : 1]>
    g (float[n,3] x, bool c) => (float[n,3] y, int64[k] z)
      <float[3] w = {1, 2, 3}, int64[2] shape = {-1, 3}> {
      k = Constant <value = float[3] {4, 5, 6}> ()
      f = local.twice(x)
      t = If (c) <
        then_branch = yes () => (float[n,3] a) { a = Add(f, w) },
        else_branch = no () => (float[n,3] b) { i = Identity(f) b = Add(i, k) }>
      r = Reshape(t, shape)
      y = Softmax <axis = -1> (r)
      z = Shape(y)
    }
    <domain: "local", opset_import: ["" : 20]>
    twice (a) => (b) { r = Relu(a)  b = Add(r, r) })");
}

TEST(HostileTest, TruncationAtEveryByteIsSurvived) {
  const auto bytes = seed_model();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    fuzz::import_once(std::string_view(bytes).substr(0, size));
  }
}

TEST(HostileTest, SeededMutationsAreSurvived) {
  const auto bytes = seed_model();
  std::mt19937 random(20240611);
  for (int round = 0; round < 3000; ++round) {
    auto mutant = bytes;
    const auto changes = 1 + random() % 6;
    for (std::uint32_t i = 0; i < changes; ++i) {
      const auto at = random() % mutant.size();
      switch (random() % 4) {
        case 0:
          mutant[at] = static_cast<char>(random());
          break;
        case 1:
          mutant[at] = static_cast<char>(mutant[at] ^ (1 << random() % 8));
          break;
        case 2:
          mutant.erase(at, 1 + random() % 4);
          break;
        default:
          mutant.insert(at, mutant, random() % mutant.size(), 1 + random() % 8);
          break;
      }
      if (mutant.empty()) break;
    }
    fuzz::import_once(mutant);
  }
}

TEST(HostileTest, RandomBytesAreSurvived) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::string bytes(random() % 200, '\0');
    for (auto& byte : bytes) byte = static_cast<char>(random());
    fuzz::import_once(bytes);
  }
}

TEST(HostileTest, GraphsNestedBeyondReasonAreRefused) {
  // attribute.g.node.attribute.g...: every level wraps the one before.
  const auto wrap = [](int field, const std::string& content) {
    std::string out(1, static_cast<char>((field << 3) | 2));
    for (auto size = content.size();; size >>= 7U) {
      if (size < 0x80U) {
        out += static_cast<char>(size);
        break;
      }
      out += static_cast<char>((size & 0x7FU) | 0x80U);
    }
    return out + content;
  };
  std::string graph;
  for (int depth = 0; depth < 2000; ++depth) graph = wrap(1, wrap(5, wrap(6, graph)));
  const auto imported = import_onnx_bytes(wrap(7, graph), {}, {});
  ASSERT_FALSE(imported);
  EXPECT_EQ(imported.error().code, Code::kDataLoss);
}

TEST(HostileTest, NegativeAndHugeDimensionsCostNothing) {
  for (const char* dims :
       {"-1", "9223372036854775807", "4611686018427387904,4", "65536,65536,65536"}) {
    const auto bytes = onnx_bytes_of_text(
        concat("<ir_version: 10, opset_import: [\"\" : 20]> g (float[", dims,
               "] x) => (float[n] y) <int64[2] s = {9223372036854775807, 9223372036854775807}> "
               "{ c = ConstantOfShape(s) t = Add(x, c) f = Flatten(t) y = Relu(f) }"));
    if (bytes) fuzz::import_once(*bytes);
  }
}

}  // namespace
}  // namespace penstock::graph
