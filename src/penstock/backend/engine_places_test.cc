// The order of the places, and the error that lists them, for an invented engine's files.
#include "penstock/backend/engine_places.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace penstock::backend {
namespace {

namespace fs = std::filesystem;

class EnginePlacesTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    root_ = fs::path(testing::TempDir()) / test->test_suite_name() / test->name();
    fs::remove_all(root_);
  }
  void TearDown() override {
    for (const char* name : {"PENSTOCK_ACME", "PENSTOCK_ENGINE_PATH", "VIRTUAL_ENV"}) {
      unsetenv(name);
    }
  }

  fs::path library(const std::string& file) {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << "none";
    return root_ / file;
  }

  /// The libraries of the place whose name begins so.
  std::vector<fs::path> found(const std::string& place) {
    const auto places = engine_places(engine_);
    const auto at = std::ranges::find_if(
        places, [&](const EnginePlace& each) { return each.name.starts_with(place); });
    return at == places.end() ? std::vector<fs::path>{} : at->libraries;
  }

  fs::path root_;
  EngineLibrary engine_ = {.title = "Acme",
                           .package = "acme-engine",
                           .variable = "PENSTOCK_ACME",
                           .file = "libacme.so",
                           .package_folder = "acme/libs",
                           .system = {"libacme.so.1"}};
};

TEST_F(EnginePlacesTest, TheEnginesOwnVariableIsTheOnlyPlace) {
  const fs::path file = library("libacme.so.3");
  setenv("PENSTOCK_ACME", root_.c_str(), 1);
  const auto places = engine_places(engine_);
  ASSERT_EQ(places.size(), 1U);
  EXPECT_EQ(places[0].name, "PENSTOCK_ACME ('" + root_.string() + "')");
  EXPECT_THAT(places[0].libraries, testing::ElementsAre(file));
}

TEST_F(EnginePlacesTest, TheNewestOfAFolderComesFirst) {
  const fs::path ninth = library("libacme.so.9");
  const fs::path tenth = library("libacme.so.10");
  library("libother.so");
  setenv("PENSTOCK_ENGINE_PATH", root_.c_str(), 1);
  EXPECT_THAT(found("PENSTOCK_ENGINE_PATH"), testing::ElementsAre(tenth, ninth));
}

TEST_F(EnginePlacesTest, APythonEnvironmentHoldsItInAPackageOrInItsLibraryFolder) {
  const fs::path packaged = library("lib/python3.99/site-packages/acme/libs/libacme.so.3");
  const fs::path plain = library("lib/libacme.so.3");
  setenv("VIRTUAL_ENV", root_.c_str(), 1);
  EXPECT_THAT(found("VIRTUAL_ENV"), testing::ElementsAre(packaged));
  engine_.package_folder.clear();
  EXPECT_THAT(found("VIRTUAL_ENV"), testing::ElementsAre(plain));
}

TEST_F(EnginePlacesTest, TheSystemsLibrariesComeLast) {
  const auto places = engine_places(engine_);
  EXPECT_EQ(places.back().name, "the system's libraries");
  EXPECT_EQ(places.back().libraries, engine_.system);
}

TEST_F(EnginePlacesTest, SaysWhatCameOfEachPlaceAndWhatToDo) {
  const fs::path file = library("libacme.so.3");
  setenv("PENSTOCK_ACME", file.c_str(), 1);
  const auto engine = find_engine(engine_, LoadedLibrary::open);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::kUnavailable);
  EXPECT_EQ(engine.error().message(),
            "no usable Acme found; sought in PENSTOCK_ACME ('" + file.string() +
                "'): " + file.string() +
                ": file too short; install one with 'pip install acme-engine', or set "
                "PENSTOCK_ACME to libacme.so or its folder");
}

TEST_F(EnginePlacesTest, NothingButTheMemoryIsBlamedWhereALibraryFindsNone) {
  const fs::path file = library("libacme.so.3");
  setenv("PENSTOCK_ENGINE_PATH", root_.c_str(), 1);
  const auto open = [&](const fs::path& path) -> Result<int> {
    if (path == file) return make_error(Code::kResourceExhausted, "out of memory");
    return make_error(Code::kUnavailable, "not an engine");
  };
  const auto engine = find_engine(engine_, open);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::kResourceExhausted);
  EXPECT_EQ(engine.error().message(),
            "Acme, '" + file.string() + "', cannot be loaded: out of memory");
  const auto one_that_loads = [&](const fs::path& path) -> Result<int> {
    if (path == engine_.system.front()) return 7;
    return open(path);
  };
  EXPECT_EQ(*find_engine(engine_, one_that_loads), 7);
}

TEST_F(EnginePlacesTest, ANameThatMayBeNowhereIsNoReasonToBlameTheMemory) {
  const auto engine = find_engine(engine_, [](const fs::path&) -> Result<int> {
    return make_error(Code::kResourceExhausted, "out of memory");
  });
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::kUnavailable);
  EXPECT_THAT(engine.error().message(), testing::HasSubstr("pip install acme-engine"));
}

TEST_F(EnginePlacesTest, ALibraryWithoutTheFunctionSoughtSaysSo) {
  const auto library = LoadedLibrary::open("libc.so.6");
  ASSERT_TRUE(library) << library.error().message();
  EXPECT_TRUE(library->function<int()>("getpid"));
  EXPECT_TRUE(library->file_of("getpid").is_absolute());
  const auto absent = library->function<int()>("acme_start");
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().message(), "libc.so.6: no acme_start in it");
}

}  // namespace
}  // namespace penstock::backend
