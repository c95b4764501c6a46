// What OpenVINO says of a failure, as it is told on.
#include "engine.h"

#include <utility>

#include <gtest/gtest.h>

namespace penstock::openvino {
namespace {

TEST(OpenVinoTranslateTest, SaysInASentenceThatThereIsNoMemory) {
  constexpr const char* kAdvice = "; raise the limit of memory (ulimit -v), or run less at once";
  constexpr std::pair<const char*, const char*> kTold[] = {
      {"std::bad_alloc", "out of memory"},
      {"Exception from src/inference/src/cpp/core.cc:109:\nstd::bad_alloc\n\n", "out of memory"},
      {"Failed to allocate 19600000000 bytes of memory",
       "Failed to allocate 19600000000 bytes of memory"}};
  for (const auto& [text, told] : kTold) {
    const Error error = translate(GENERAL_ERROR, text);
    EXPECT_EQ(error.code, Code::kResourceExhausted) << text;
    EXPECT_EQ(error.message(), concat(told, kAdvice));
  }
}

}  // namespace
}  // namespace penstock::openvino
