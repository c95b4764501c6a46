// Where slots and mirrors lie, for readers and writers of the host's and invented memories.
#include "penstock/pipeline/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::pipeline::memory_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Holds nothing.
class NamedMemory : public backend::Memory {
 public:
  NamedMemory(std::string name, bool reaches_host)
      : name_(std::move(name)), reaches_host_(reaches_host) {}
  [[nodiscard]] std::string name() const override { return name_; }
  Result<Tensor> allocate(DType /*dtype*/, std::size_t /*bytes*/) override {
    return make_error(Code::kResourceExhausted, "none");
  }
  Status copy(const Tensor& /*from*/, Tensor& /*to*/) override { return {}; }
  [[nodiscard]] bool reaches_host() const override { return reaches_host_; }

 private:
  const std::string name_;
  const bool reaches_host_;
};

using Memories = std::vector<backend::Memory*>;

class MemoriesTest : public ::testing::Test {
 protected:
  NamedMemory device_{"cuda:0", false};
  NamedMemory workers_{"workers", true}, same_workers_{"workers", true};
};

TEST_F(MemoriesTest, WhatIsMadeAndReadInAMemoryThatReachesTheHostsLiesThere) {
  const auto made = memories_for(Memories{&workers_}, Memories{&same_workers_}, false);
  EXPECT_EQ(made.own, &workers_);
  EXPECT_THAT(made.mirrors, IsEmpty());
}

TEST_F(MemoriesTest, WhatOnlyTheHostReadsComesToItWithoutAMirror) {
  for (const bool leaves : {false, true}) {
    const auto made = memories_for(Memories{&workers_}, Memories{nullptr}, leaves);
    EXPECT_EQ(made.own, nullptr);
    EXPECT_THAT(made.mirrors, IsEmpty());
  }
}

TEST_F(MemoriesTest, WhatTheHostMakesGoesThereWithoutAMirror) {
  const auto made = memories_for(Memories{nullptr}, Memories{&workers_}, false);
  EXPECT_EQ(made.own, nullptr);
  EXPECT_THAT(made.mirrors, IsEmpty());
}

TEST_F(MemoriesTest, AReaderOfTheHostsHasAMirrorBesideOneThatReadsInPlace) {
  const auto made = memories_for(Memories{&workers_}, Memories{&workers_, nullptr}, false);
  EXPECT_EQ(made.own, &workers_);
  EXPECT_THAT(made.mirrors, ElementsAre(nullptr));
}

TEST_F(MemoriesTest, AHostThatStandsByForTheMakerChangesNothingForTheReaders) {
  const auto made = memories_for(Memories{&workers_, nullptr}, Memories{&workers_}, false);
  EXPECT_EQ(made.own, &workers_);
  EXPECT_THAT(made.mirrors, ElementsAre(nullptr));
}

TEST_F(MemoriesTest, ADeviceThatCannotReachItGoesThroughTheHosts) {
  const auto there = memories_for(Memories{&workers_}, Memories{&device_}, false);
  EXPECT_EQ(there.own, nullptr);
  EXPECT_THAT(there.mirrors, ElementsAre(&device_));
  const auto back = memories_for(Memories{&device_}, Memories{&workers_}, false);
  EXPECT_EQ(back.own, &device_);
  EXPECT_THAT(back.mirrors, ElementsAre(nullptr, &workers_));
}

}  // namespace
}  // namespace penstock::pipeline::memory_test
