// A governor is read from a made-up folder, and is empty for a CPU that has no such file.
#include "penstock/device/governor.h"

#include <filesystem>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace penstock::device {
namespace {

TEST(GovernorTest, IsTheFirstWordOfItsFileAndEmptyWhereThereIsNone) {
  const TemporaryFolder folder;
  const auto place = folder.path() / "cpu3" / "cpufreq";
  std::filesystem::create_directories(place);
  std::ofstream(place / "scaling_governor") << "powersave\n";
  EXPECT_EQ(read_governor(folder.path(), 3), "powersave");
  EXPECT_EQ(read_governor(folder.path(), 4), "");
}

}  // namespace
}  // namespace penstock::device
