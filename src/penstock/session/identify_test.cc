// Folders, zips and YAML files whose names agree with their bytes or not, present or absent.
#include "penstock/session/identify.h"

#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class IdentifyTest : public testing::Test {
 protected:
  fs::path file(const char* name, const char* bytes) {
    std::ofstream(folder_.path() / name, std::ios::binary) << bytes;
    return folder_.path() / name;
  }

  const TemporaryFolder folder_;
};

TEST_F(IdentifyTest, AFolderIsAPackageWhateverItsName) {
  for (const char* name : {"a.penstock", "b.onnx", "c.yaml"}) {
    fs::create_directory(folder_.path() / name);
    EXPECT_EQ(identify(folder_.path() / name), FileKind::kPackage) << name;
  }
}

TEST_F(IdentifyTest, AZipIsOneByItsFirstBytes) {
  EXPECT_EQ(identify(file("a.penstock.zip", "PK\3\4")), FileKind::kPackage);
  EXPECT_EQ(identify(file("a.onnx", "PK\3\4")), FileKind::kPackage);
  EXPECT_EQ(identify(file("b.zip", "\10\7")), FileKind::kModel);
}

TEST_F(IdentifyTest, WhereThereIsNothingToReadItsNameTells) {
  EXPECT_EQ(identify(file("empty.zip", "")), FileKind::kPackage);
  EXPECT_EQ(identify(folder_.path() / "absent.ZIP"), FileKind::kPackage);
  EXPECT_EQ(identify(folder_.path() / "absent.onnx"), FileKind::kModel);
  EXPECT_EQ(identify(folder_.path() / "absent"), FileKind::kModel);
}

TEST_F(IdentifyTest, AnApplicationIsOneByItsName) {
  EXPECT_EQ(identify(file("a.yaml", "nodes:")), FileKind::kApplication);
  EXPECT_EQ(identify(folder_.path() / "absent.YML"), FileKind::kApplication);
}

}  // namespace
}  // namespace penstock
