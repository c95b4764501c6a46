// A link is timed where the system has threads for both of its sides.
#include "penstock/probe/link.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/device/affinity.h"
#include "tests/support/no_more_threads.h"

namespace penstock::probe {
namespace {

TEST(TimeLink, WhereTheSystemHasNoThreadThatIsSaid) {
  const auto cpus = device::inherited_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "a link needs two CPUs";
  {
    const NoMoreThreads limited;
    const auto refused = time_link(cpus, cpus);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
    EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("no thread could be started"));
  }
  const auto timed = time_link(cpus, cpus);
  ASSERT_TRUE(timed) << timed.error().message();
  EXPECT_GT(timed->bytes_per_second, 0);
}

}  // namespace
}  // namespace penstock::probe
