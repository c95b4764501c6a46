// Quota and memory left, from made-up cgroup v1 and v2 folders, without limits or unreadable.
#include "penstock/device/cgroup.h"

#include <fstream>

#include <gtest/gtest.h>

namespace penstock::device {
namespace {

namespace fs = std::filesystem;

class CgroupTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / test->test_suite_name() / test->name();
    fs::remove_all(root_);
  }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  fs::path root_;
};

class CpuQuotaTest : public CgroupTest {
 protected:
  std::optional<double> quota() { return read_cpu_quota(root_ / "membership", root_ / "cgroup"); }
};

class AvailableMemoryTest : public CgroupTest {
 protected:
  std::optional<std::uint64_t> available() {
    return read_available_memory(root_ / "meminfo", root_ / "membership", root_ / "cgroup");
  }
};

TEST_F(CpuQuotaTest, ReadsVersion2) {
  write("membership", "0::/app\n");
  write("cgroup/app/cpu.max", "150000 100000\n");
  EXPECT_EQ(quota(), 1.5);
}

TEST_F(CpuQuotaTest, ReadsVersion1) {
  write("membership", "5:memory:/app\n4:cpu,cpuacct:/app\n");
  write("cgroup/cpu,cpuacct/app/cpu.cfs_quota_us", "50000\n");
  write("cgroup/cpu,cpuacct/app/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), 0.5);
}

TEST_F(CpuQuotaTest, TakesTheTightestOfTheGroupsAbove) {
  write("membership", "0::/pod/app\n");
  write("cgroup/pod/cpu.max", "200000 100000\n");
  write("cgroup/pod/app/cpu.max", "300000 100000\n");
  EXPECT_EQ(quota(), 2.0);
}

TEST_F(CpuQuotaTest, TakesTheMountWhereTheGroupIsTheHosts) {
  write("membership", "0::/docker/0123\n");
  write("cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(quota(), 1.0);
}

TEST_F(CpuQuotaTest, IsEmptyWithoutALimit) {
  write("membership", "0::/app\n");
  write("cgroup/app/cpu.max", "max 100000\n");
  EXPECT_EQ(quota(), std::nullopt);
  write("membership", "4:cpu:/app\n");
  write("cgroup/cpu/app/cpu.cfs_quota_us", "-1\n");
  write("cgroup/cpu/app/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(quota(), std::nullopt);
}

TEST_F(AvailableMemoryTest, IsTheMachinesWithoutALimit) {
  write("meminfo", "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n");
  EXPECT_EQ(available(), 4000U * 1024);
  write("membership", "0::/app\n");
  write("cgroup/app/memory.max", "max\n");
  EXPECT_EQ(available(), 4000U * 1024);
}

TEST_F(AvailableMemoryTest, IsTheGroupsWhereItHasLess) {
  write("meminfo", "MemAvailable:    4000 kB\n");
  write("membership", "0::/pod/app\n");
  write("cgroup/pod/memory.max", "1000000\n");
  write("cgroup/pod/memory.current", "700000\n");
  write("cgroup/pod/memory.stat", "anon 500000\ninactive_file 150000\nactive_file 50000\n");
  EXPECT_EQ(available(), 500'000U);
  write("cgroup/pod/app/memory.max", "600000\n");
  write("cgroup/pod/app/memory.current", "590000\n");
  EXPECT_EQ(available(), 10'000U);
  write("cgroup/pod/app/memory.current", "600001\n");
  EXPECT_EQ(available(), 0U);
}

TEST_F(AvailableMemoryTest, ReadsVersion1) {
  write("membership", "4:cpu:/app\n9:memory:/app\n");
  write("cgroup/memory/app/memory.limit_in_bytes", "1000000\n");
  write("cgroup/memory/app/memory.usage_in_bytes", "400000\n");
  write("cgroup/memory/app/memory.stat", "active_file 7\ntotal_active_file 100000\n");
  EXPECT_EQ(available(), 700'000U);
}

TEST_F(AvailableMemoryTest, IsEmptyWhereVersion1HasNoLimit) {
  write("membership", "9:memory:/app\n");
  write("cgroup/memory/app/memory.limit_in_bytes", "9223372036854771712\n");
  write("cgroup/memory/app/memory.usage_in_bytes", "400000\n");
  EXPECT_EQ(available(), std::nullopt);
}

TEST_F(AvailableMemoryTest, IsEmptyWhereNothingCanBeRead) {
  EXPECT_EQ(available(), std::nullopt);
  write("meminfo", "MemTotal:  8000 kB\n");
  EXPECT_EQ(available(), std::nullopt);
}

TEST_F(AvailableMemoryTest, IsTheMachinesWhereAGroupCannotBeRead) {
  write("meminfo", "MemAvailable:    4000 kB\n");
  write("membership", "0::/app\n");
  fs::create_directories(root_ / "cgroup");
  fs::create_symlink("app", root_ / "cgroup/app");  // It leads to itself.
  EXPECT_EQ(available(), 4000U * 1024);
}

TEST_F(AvailableMemoryTest, OfTheMachineIsWhatTheKernelCounts) {
  EXPECT_EQ(read_machine_memory(root_ / "meminfo"), 0U);
  write("meminfo", "MemTotal:  8000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n");
  EXPECT_EQ(read_machine_memory(root_ / "meminfo"), 8'192'000U);
}

TEST_F(CpuQuotaTest, IsEmptyWhereNothingCanBeRead) {
  EXPECT_EQ(quota(), std::nullopt);
  write("membership", "garbage\n\n:::\n0::");
  write("cgroup/cpu.max", "garbage");
  EXPECT_EQ(quota(), std::nullopt);
}

}  // namespace
}  // namespace penstock::device
