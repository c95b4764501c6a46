#include "penstock/device/cgroup.h"

#include <fstream>

#include <gtest/gtest.h>

namespace penstock::device {
namespace {

namespace fs = std::filesystem;

class CpuQuotaTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(testing::TempDir()) /
            testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(root_);
  }

  void write(const std::string& file, const std::string& text) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  std::optional<double> quota() { return read_cpu_quota(root_ / "membership", root_ / "cgroup"); }

  fs::path root_;
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

TEST_F(CpuQuotaTest, IsEmptyWhereNothingCanBeRead) {
  EXPECT_EQ(quota(), std::nullopt);
  write("membership", "garbage\n\n:::\n0::");
  write("cgroup/cpu.max", "garbage");
  EXPECT_EQ(quota(), std::nullopt);
}

}  // namespace
}  // namespace penstock::device
