// Model and flags from texts as x86 and arm64 have them, and from an empty or absent file.
#include "penstock/device/cpu_info.h"

#include <fstream>
#include <string>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace penstock::device {
namespace {

CpuInfo info_of(const std::string& text) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "cpuinfo";
  std::ofstream(file) << text;
  return read_cpu_info(file);
}

TEST(CpuInfoTest, ReadsTheNameAndTheFlagsOfTheFirstCpu) {
  const auto info = info_of(
      "processor\t: 0\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx2\n\n"
      "processor\t: 1\nmodel name\t: another\nflags\t\t: fpu\n");
  EXPECT_EQ(info.model, "AMD EPYC");
  EXPECT_EQ(info.flags, "fpu avx2");
}

TEST(CpuInfoTest, TellsProcessorsOfArm64ApartByTheirNumbers) {
  const auto info_of_part = [](const std::string& part) {
    return info_of(
        "processor\t: 0\nBogoMIPS\t: 243.75\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\n"
        "CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: " +
        part + "\nCPU revision\t: 1\n");
  };
  EXPECT_EQ(info_of_part("0xd0c").model, "implementer 0x41 part 0xd0c");
  EXPECT_EQ(info_of_part("0xd0c").flags, "fp asimd");
  EXPECT_NE(info_of_part("0xd40").model, info_of_part("0xd0c").model);
}

TEST(CpuInfoTest, IsEmptyWhereNothingTells) {
  EXPECT_EQ(info_of("").model, "");
  EXPECT_EQ(read_cpu_info("/absent").flags, "");
}

}  // namespace
}  // namespace penstock::device
