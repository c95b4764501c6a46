// Folders are listed and removed whole, links not followed.
#include "penstock/base/folder.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include "penstock/base/files.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

class FolderTest : public ::testing::Test {
 protected:
  void write(const fs::path& name) const {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << "text";
  }

  std::shared_ptr<const fs::path> held = *make_temporary_folder();
  fs::path folder = *held;
};

TEST_F(FolderTest, NamesFilesFoldersAndLinksOnce) {
  write("a.npy");
  write(".hidden");
  write("inner/b.npy");
  fs::create_symlink("nowhere", folder / "link");
  std::error_code error = std::make_error_code(std::errc::io_error);
  auto names = names_in(folder, error);
  EXPECT_FALSE(error);
  std::ranges::sort(names);
  EXPECT_EQ(names, (std::vector<std::string>{".hidden", "a.npy", "inner", "link"}));
}

TEST_F(FolderTest, NamesNoMoreThanAsked) {
  for (const char* name : {"a", "b", "c"}) write(name);
  std::error_code error;
  EXPECT_EQ(names_in(folder, error, 2).size(), 2U);
  EXPECT_FALSE(error);
}

TEST_F(FolderTest, TellsWhyAFolderCannotBeRead) {
  write("a");
  std::error_code error;
  EXPECT_TRUE(names_in(folder / "missing", error).empty());
  EXPECT_EQ(error, std::errc::no_such_file_or_directory);
  EXPECT_TRUE(names_in(folder / "a", error).empty());
  EXPECT_EQ(error, std::errc::not_a_directory);
}

TEST_F(FolderTest, RemovesATreeAndOfALinkTheLink) {
  write("kept/a");
  write("tree/inner/b");
  write("tree/c");
  fs::create_directory_symlink(folder / "kept", folder / "tree/link");
  remove_tree(folder / "tree");
  EXPECT_FALSE(fs::exists(folder / "tree"));
  EXPECT_TRUE(fs::exists(folder / "kept/a"));
  remove_tree(folder / "kept/a");
  EXPECT_FALSE(fs::exists(folder / "kept/a"));
  remove_tree(folder / "missing");
}

}  // namespace
}  // namespace penstock
