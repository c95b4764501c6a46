// What ONNX Runtime says of a failure, as it is told on.
#include "engine.h"

#include <utility>

#include <gtest/gtest.h>

namespace penstock::ort {
namespace {

TEST(OnnxRuntimeTranslateTest, SaysInASentenceThatThereIsNoMemory) {
  constexpr const char* kAdvice = "; raise the limit of memory (ulimit -v), or run less at once";
  constexpr std::pair<const char*, const char*> kTold[] = {
      {"std::bad_alloc", "out of memory"},
      {"Exception during initialization: std::bad_alloc", "out of memory"},
      {"/src/bfc_arena.cc:376 void* Bfc::Allocate(size_t) Failed to allocate memory for requested "
       "buffer of size 16384",
       "Failed to allocate memory for requested buffer of size 16384"},
      {"Non-zero status code returned while running Add node. Name:'a' Status Message: "
       "std::bad_alloc",
       "node 'a' (Add): out of memory"}};
  for (const auto& [text, told] : kTold) {
    const Error error = translate(ORT_RUNTIME_EXCEPTION, text);
    EXPECT_EQ(error.code, Code::kResourceExhausted) << text;
    EXPECT_EQ(error.message(), concat(told, kAdvice));
  }
}

}  // namespace
}  // namespace penstock::ort
