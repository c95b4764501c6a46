// A variable is added only if absent, arrays in use stay as they are, and setenv() still works.
#include "penstock/backend/environment.h"

#include <cstdlib>
#include <string_view>

#include <gmock/gmock.h>
#include <unistd.h>

namespace penstock::backend {
namespace {

std::vector<std::string> list(char** variables) {
  std::vector<std::string> found;
  for (; *variables != nullptr; ++variables) found.emplace_back(*variables);
  return found;
}

std::string_view value_of(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "none" : value;
}

TEST(EnvironmentTest, AddsAVariableUnlessItIsThere) {
  add_to_environment("PENSTOCK_TEST_ADDED", "first");
  EXPECT_EQ(value_of("PENSTOCK_TEST_ADDED"), "first");
  add_to_environment("PENSTOCK_TEST_ADDED", "second");
  EXPECT_EQ(value_of("PENSTOCK_TEST_ADDED"), "first");
  EXPECT_EQ(value_of("PENSTOCK_TEST_ADD"), "none");
}

TEST(EnvironmentTest, WhatAThreadMayBeReadingStaysAsItIs) {
  // From here on the C library owns the array, and would let it grow where it is, or free it.
  ASSERT_EQ(::setenv("PENSTOCK_TEST_SET", "x", 1), 0);
  for (const std::string name : {"PENSTOCK_TEST_ONE", "PENSTOCK_TEST_TWO"}) {
    char** const before = environ;
    const auto variables = list(before);
    add_to_environment(name, "1");
    EXPECT_NE(environ, before);
    EXPECT_EQ(list(before), variables);
    auto more = variables;
    more.push_back(name + "=1");
    EXPECT_THAT(list(environ), testing::UnorderedElementsAreArray(more));
  }
}

TEST(EnvironmentTest, TheCLibraryGoesOnFromThere) {
  add_to_environment("PENSTOCK_TEST_THREE", "1");
  ASSERT_EQ(::setenv("PENSTOCK_TEST_FOUR", "2", 1), 0);
  EXPECT_EQ(value_of("PENSTOCK_TEST_THREE"), "1");
  EXPECT_EQ(value_of("PENSTOCK_TEST_FOUR"), "2");
  ASSERT_EQ(::unsetenv("PENSTOCK_TEST_THREE"), 0);
  EXPECT_EQ(value_of("PENSTOCK_TEST_THREE"), "none");
}

}  // namespace
}  // namespace penstock::backend
