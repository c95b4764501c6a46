// Packages as folders and zips: written, replaced, moved, and with changed or hostile files.
#include "penstock/plan/package.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zip.h>

#include "penstock/plan/plan_json.h"
#include "penstock/plan/test_plans.h"
#include "tests/support/temporary_folder.h"

namespace penstock::plan {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class PackageTest : public testing::Test {
 protected:
  static void write(const fs::path& file, const std::string& text) {
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
  }

  static std::string read(const fs::path& file) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    return std::move(text).str();
  }

  /// Two stage files and plan.json, to a folder or a zip.
  fs::path make(const std::string& name, const std::string& content = "first") {
    auto writer = PackageWriter::create(folder_ / name);
    EXPECT_TRUE(writer) << writer.error().message();
    write(writer->folder() / "stages/0.onnx", content);
    write(writer->folder() / "stages/1.onnx", "second");
    const auto plan = writer->commit(chain());
    EXPECT_TRUE(plan) << plan.error().message();
    return folder_ / name;
  }

  void expect_error(const fs::path& path, Code code, const std::string& message) {
    const auto package = load_package(path);
    ASSERT_FALSE(package) << message;
    EXPECT_EQ(package.error().code, code) << package.error().message();
    EXPECT_THAT(package.error().message(), HasSubstr(message));
    EXPECT_THAT(package.error().message(), HasSubstr("package '" + path.string() + "': "));
  }

  std::vector<std::string> names() const {
    std::vector<std::string> list;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      list.push_back(entry.path().filename().string());
    }
    std::ranges::sort(list);
    return list;
  }

  /// Writes a zip of the given entries; `links` are stored as symbolic links.
  fs::path make_zip(const std::vector<std::pair<std::string, std::string>>& entries,
                    const std::string& link = "") {
    const auto file = folder_ / "made.zip";
    int code = 0;
    zip_t* archive = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
    for (const auto& [name, text] : entries) {
      auto* source = zip_source_buffer(archive, text.data(), text.size(), 0);
      const auto at = zip_file_add(archive, name.c_str(), source, ZIP_FL_ENC_UTF_8);
      if (name == link) {
        zip_file_set_external_attributes(archive, static_cast<zip_uint64_t>(at), 0, ZIP_OPSYS_UNIX,
                                         zip_uint32_t{S_IFLNK | 0777U} << 16U);
      }
    }
    EXPECT_EQ(zip_close(archive), 0);
    return file;
  }

  const TemporaryFolder temporary_;
  const fs::path& folder_ = temporary_.path();
};

TEST_F(PackageTest, IsForNobodyElseWhereAFileOfItIsNot) {
  constexpr auto kOthers = fs::perms::group_all | fs::perms::others_all;
  const auto given_to_others = [&](const fs::path& file) {
    return fs::status(file).permissions() & kOthers;
  };
  auto writer = PackageWriter::create(folder_ / "p.zip");
  ASSERT_TRUE(writer) << writer.error().message();
  write(writer->folder() / "stages/0.onnx", "first");
  write(writer->folder() / "stages/1.onnx", "second");
  fs::permissions(writer->folder() / "stages/1.onnx", kOthers, fs::perm_options::remove);
  ASSERT_TRUE(writer->commit(chain()));
  EXPECT_EQ(given_to_others(folder_ / "p.zip"), fs::perms::none);
  const auto package = load_package(folder_ / "p.zip");
  ASSERT_TRUE(package) << package.error().message();
  EXPECT_EQ(given_to_others(package->folder / "stages/0.onnx"), fs::perms::none);
}

TEST_F(PackageTest, LoadsWhatItWrote) {
  const auto package = load_package(make("p"));
  ASSERT_TRUE(package) << package.error().message();
  EXPECT_EQ(package->folder, folder_ / "p");
  EXPECT_EQ(package->files, nullptr);
  auto plan = package->plan;
  EXPECT_THAT(plan.files,
              ElementsAre(testing::Key("stages/0.onnx"), testing::Key("stages/1.onnx")));
  plan.files.clear();
  EXPECT_EQ(plan, chain());
  EXPECT_THAT(names(), ElementsAre("p"));
}

TEST_F(PackageTest, LoadsFromAnotherPlace) {
  fs::rename(make("p"), folder_ / "moved");
  EXPECT_TRUE(load_package(folder_ / "moved"));
}

TEST_F(PackageTest, UnpacksAZipForAsLongAsThePackageLives) {
  fs::path unpacked;
  {
    auto package = load_package(make("p.zip"));
    ASSERT_TRUE(package) << package.error().message();
    unpacked = package->folder;
    EXPECT_EQ(read(unpacked / "stages/0.onnx"), "first");
    const auto copy = *package;
    *package = {};
    EXPECT_EQ(read(copy.folder / "stages/1.onnx"), "second");
    EXPECT_EQ(fs::status(unpacked).permissions() & (fs::perms::group_all | fs::perms::others_all),
              fs::perms::none);
  }
  EXPECT_FALSE(fs::exists(unpacked));
}

TEST_F(PackageTest, WritesTheSameZipTwice) {
  EXPECT_EQ(read(make("p.zip")), read(make("q.zip")));
}

TEST_F(PackageTest, LoadsAZipOfTheFolderItself) {
  make("p");
  const auto zip = make_zip({{"p/plan.json", read(folder_ / "p/plan.json")},
                             {"p/stages/0.onnx", "first"},
                             {"p/stages/1.onnx", "second"}});
  EXPECT_TRUE(load_package(zip)) << load_package(zip).error().message();
}

TEST_F(PackageTest, ReplacesAPackage) {
  make("p");
  make("p", "newer");
  EXPECT_EQ(read(folder_ / "p/stages/0.onnx"), "newer");
  make("p.zip");
  make("p.zip", "newer");
  EXPECT_TRUE(load_package(folder_ / "p.zip"));
  EXPECT_THAT(names(), ElementsAre("p", "p.zip"));
}

TEST_F(PackageTest, ReplacesNothingElse) {
  write(folder_ / "p/precious", "data");
  write(folder_ / "p.zip", "data");
  for (const auto* name : {"p", "p/", "p.zip", "p/precious"}) {
    const auto writer = PackageWriter::create(folder_ / name);
    ASSERT_FALSE(writer) << name;
    EXPECT_EQ(writer.error().code, Code::kAlreadyExists);
    EXPECT_THAT(writer.error().message(), HasSubstr("only a package is replaced"));
  }
}

TEST_F(PackageTest, LeavesNothingBehindWithoutACommit) {
  {
    const auto writer = PackageWriter::create(folder_ / "p");
    ASSERT_TRUE(writer);
    write(writer->folder() / "stages/0.onnx", "half");
  }
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(PackageTest, TellsBeforehandWhetherAPackageCanBeWritten) {
  EXPECT_TRUE(check_target(folder_ / "p"));
  EXPECT_TRUE(check_target(folder_ / "p.zip"));
  EXPECT_TRUE(fs::is_empty(folder_)) << "the trial leaves nothing";
  write(folder_ / "other/precious", "data");
  EXPECT_EQ(check_target(folder_ / "other").error().code, Code::kAlreadyExists);
  EXPECT_EQ(check_target(folder_ / "absent/p").error().code, Code::kNotFound);
  make("old");
  EXPECT_TRUE(check_target(folder_ / "old"));
  EXPECT_EQ(check_target(folder_ / "old/p").error().code, Code::kInvalidArgument);
}

TEST_F(PackageTest, RefusesToWriteAPlanWithoutItsFiles) {
  auto writer = PackageWriter::create(folder_ / "p");
  ASSERT_TRUE(writer);
  const auto plan = writer->commit(chain());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().code, Code::kInvalidArgument);
  EXPECT_THAT(plan.error().message(), HasSubstr("file 'stages/0.onnx': the plan uses it"));
}

TEST_F(PackageTest, NamesTheFolderThatIsNotThere) {
  const auto writer = PackageWriter::create(folder_ / "absent/p");
  ASSERT_FALSE(writer);
  EXPECT_EQ(writer.error().code, Code::kNotFound);
  EXPECT_THAT(writer.error().message(), HasSubstr("absent"));
  expect_error(folder_ / "absent", Code::kNotFound, "no such folder or zip");
  expect_error(folder_, Code::kNotFound, "no plan.json in it");
}

TEST_F(PackageTest, NamesAChangedFile) {
  write(make("p") / "stages/1.onnx", "sEcond");
  expect_error(folder_ / "p", Code::kDataLoss, "file 'stages/1.onnx': expected SHA-256 ");
}

TEST_F(PackageTest, NamesAMissingFile) {
  fs::remove(make("p") / "stages/1.onnx");
  expect_error(folder_ / "p", Code::kDataLoss, "file 'stages/1.onnx': is missing");
}

TEST_F(PackageTest, NamesAFileThatIsNotListed) {
  write(make("p") / "stages/2.onnx", "");
  expect_error(folder_ / "p", Code::kDataLoss, "file 'stages/2.onnx': is not listed in plan.json");
}

TEST_F(PackageTest, RefusesALinkInPlaceOfAFile) {
  const auto package = make("p");
  write(folder_ / "outside", "second");
  fs::remove(package / "stages/1.onnx");
  fs::create_symlink(folder_ / "outside", package / "stages/1.onnx");
  expect_error(package, Code::kInvalidArgument, "path 'stages/1.onnx': '1.onnx' is a link");
}

TEST_F(PackageTest, RefusesALinkInPlaceOfAFolder) {
  const auto package = make("p");
  fs::rename(package / "stages", folder_ / "outside");
  fs::create_directory_symlink(folder_ / "outside", package / "stages");
  expect_error(package, Code::kInvalidArgument, "path 'stages/0.onnx': 'stages' is a link");
}

TEST_F(PackageTest, RefusesAPathThatLeadsOutside) {
  const auto package = make("p");
  auto text = read(package / "plan.json");
  text.replace(text.find("stages/0.onnx"), 13, "../outside");
  write(package / "plan.json", text);
  expect_error(package, Code::kInvalidArgument, "'../outside' leads outside the package");
}

TEST_F(PackageTest, RefusesAModelThatNoHashCovers) {
  const auto package = make("p");
  auto plan = load_package(package)->plan;
  plan.files.erase("stages/0.onnx");
  write(package / "plan.json", to_json(plan));
  expect_error(package, Code::kInvalidArgument,
               "file 'stages/0.onnx': the plan uses it and 'files' does not list its hash");
}

TEST_F(PackageTest, AllowsPlanJsonToBeEdited) {
  const auto package = make("p");
  auto plan = load_package(package)->plan;
  plan.edges[0].capacity = 3;
  write(package / "plan.json", to_json(plan));
  const auto again = load_package(package);
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(again->plan.edges[0].capacity, 3);
}

TEST_F(PackageTest, NamesPlanJsonInItsErrors) {
  const auto package = make("p");
  write(package / "plan.json", R"({"penstock_plan": 3})");
  expect_error(package, Code::kFailedPrecondition,
               "plan.json: penstock_plan: expected version 1 or 2, found 3");
  write(package / "plan.json", "{");
  expect_error(package, Code::kDataLoss, "plan.json: not JSON: at line 1, column 2");
}

TEST_F(PackageTest, RefusesAZipThatLeadsOutside) {
  expect_error(make_zip({{"../../escaped", "x"}}), Code::kInvalidArgument,
               "entry '../../escaped' leads outside the package");
  expect_error(make_zip({{"/escaped", "x"}}), Code::kInvalidArgument,
               "entry '/escaped' is absolute");
  expect_error(make_zip({{"a\\..\\b", "x"}}), Code::kInvalidArgument, "has a character");
  expect_error(make_zip({{"link", "/etc"}}, "link"), Code::kInvalidArgument,
               "entry 'link' is a link");
}

TEST_F(PackageTest, RefusesAZipThatUnpacksToManyTimesItsSize) {
  const std::string zeros(40U << 20U, '\0');
  const auto zip = make_zip({{"a", zeros}, {"b", zeros}});
  expect_error(zip, Code::kInvalidArgument,
               concat("the zip has ", fs::file_size(zip),
                      " bytes and would unpack to 83886080: expected at most 67108864 or 20 times "
                      "its size; if you trust it, unpack it and name the folder"));
}

TEST_F(PackageTest, RefusesAZipOfMoreFilesAndFoldersThanAnyPackageHas) {
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "d/";
  std::vector<std::pair<std::string, std::string>> entries;
  entries.reserve(70);
  for (int i = 0; i < 70; ++i) entries.emplace_back(concat(i, "/", deep, "file"), "");
  expect_error(make_zip(entries), Code::kInvalidArgument,
               "the zip holds more than 65536 files and folders: expected a package's; "
               "if you trust it, unpack it and name the folder");
}

TEST_F(PackageTest, NamesAChangedByteInAZip) {
  auto text = read(make("p.zip"));
  text[text.find("first")] = 'F';
  write(folder_ / "p.zip", text);
  expect_error(folder_ / "p.zip", Code::kDataLoss, "entry 'stages/0.onnx': ");
}

TEST_F(PackageTest, SurvivesEveryTruncationOfAZip) {
  const auto text = read(make("p.zip"));
  for (std::size_t length = 0; length < text.size(); length += 97) {
    write(folder_ / "p.zip", text.substr(0, length));
    EXPECT_FALSE(load_package(folder_ / "p.zip")) << length;
  }
}

}  // namespace
}  // namespace penstock::plan
