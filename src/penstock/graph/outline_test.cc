// What the outline of a model believes of the shapes that its file tells.
#include "penstock/graph/outline.h"

#include <array>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "penstock/graph/test_support.h"

namespace penstock::graph {
namespace {

/// The type of what the one LSTM reads first.
std::string read_by_the_lstm(const std::string& text) {
  constexpr std::array<std::string_view, 1> kOps = {"LSTM"};
  const auto found = outline({}, bytes_of_text(text), kOps);
  if (!found) return found.error().message();
  if (found->nodes.size() != 1) return concat(found->nodes.size(), " nodes");
  return to_string(found->nodes.front().inputs.front().second);
}

TEST(Outline, BelievesInferenceRatherThanWhatTheFileTells) {
  EXPECT_EQ(read_by_the_lstm(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[t, b, 2] x, float[1, 12, 2] w, float[1, 12, 3] r) => (float[4, 1, 5, 3] y)
    <float[4, 5, 2] n> {
      n = Neg(x)
      y = LSTM<hidden_size = 3>(n, w, r)
    })"),
            "f32[t,b,2]");
}

TEST(Outline, BelievesNoShapeThatAnOutputTells) {
  EXPECT_EQ(read_by_the_lstm(R"(
    <ir_version: 8, opset_import: ["" : 17]>
    g (float[t, b, 2] x, int64[3] s, float[1, 12, 2] w, float[1, 12, 3] r)
        => (float y, float[4, 5, 2] n) {
      n = Reshape(x, s)
      y = LSTM<hidden_size = 3>(n, w, r)
    })"),
            "f32[unk__0,unk__1,unk__2]");
}

TEST(Outline, BelievesNoShapeThatABodyTells) {
  for (const auto* reads : {"s", "m"}) {
    EXPECT_EQ(read_by_the_lstm(concat(R"(
      <ir_version: 8, opset_import: ["" : 17]>
      g (float[t, b, 2] x, int64 k, bool c, float[1, 12, 2] w, float[1, 12, 3] r)
          => (float last, float all) {
        last, all = Loop(k, c, x) <body = b (int64 i, bool go, float[4, 5, 2] s)
            => (bool more, float[4, 5, 2] next, float[4, 1, 5, 3] y)
            <float[4, 5, 2] m> {
          more = Identity(go)
          m = Neg(s)
          next = Identity(m)
          y = LSTM<hidden_size = 3>()",
                                      reads, R"(, w, r)
        }>
      })")),
              "f32")
        << reads;
  }
}

}  // namespace
}  // namespace penstock::graph
