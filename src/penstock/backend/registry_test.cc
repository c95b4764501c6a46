// Which plugins are loaded and which refused, and in what words, by plugins built to be wrong.
#include "penstock/backend/registry.h"

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "penstock/backend/plugin_places.h"

namespace penstock::backend {
namespace {

namespace fs = std::filesystem;

fs::path plugin(const std::string& kind) {
  return fs::path(PENSTOCK_TEST_PLUGINS) / ("libpenstock_backend_test_" + kind + ".so");
}

Error error_of(const fs::path& file) {
  Registry registry;
  auto status = registry.add_plugin(file);
  EXPECT_FALSE(status);
  return status ? Error{} : status.error();
}

std::string quoted(const fs::path& file) {
  return "plugin '" + file.string() + "'";
}

TEST(RegistryTest, FindsABackendByTheNameOfItsPlugin) {
  Registry registry;
  ASSERT_TRUE(registry.add_plugin(plugin("good")));
  const auto backend = registry.find("nothing");
  ASSERT_TRUE(backend);
  EXPECT_EQ((*backend)->describe().name, "nothing");
  EXPECT_EQ((*backend)->compile({}).error().message(), "backend 'nothing' compiles nothing");
}

TEST(RegistryTest, TheFirstOfANameWins) {
  Registry registry;
  ASSERT_TRUE(registry.add_plugin(plugin("good")));
  const auto again = registry.add_plugin(plugin("good"));
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kAlreadyExists);
  EXPECT_EQ(registry.all().size(), 1U);
}

TEST(RegistryTest, RefusesAnotherInterfaceVersion) {
  const Error error = error_of(plugin("abi"));
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_EQ(error.message(),
            concat(quoted(plugin("abi")),
                   ": built for version 999 of the plugin interface, this Penstock has version ",
                   kAbiVersion, "; rebuild the plugin with its headers"));
}

TEST(RegistryTest, RefusesAnotherBuild) {
  const Error error = error_of(plugin("build"));
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_EQ(error.message(),
            concat(quoted(plugin("build")), ": built as 'another compiler', this Penstock as '",
                   kBuild, "'; rebuild the plugin with the same compiler and options"));
}

TEST(RegistryTest, RefusesALibraryThatIsNoPlugin) {
  const Error error = error_of(plugin("empty"));
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_EQ(error.message(), quoted(plugin("empty")) +
                                 ": no function penstock_plugin in it; a plugin ends with "
                                 "PENSTOCK_PLUGIN(\"name\", Class)");
}

TEST(RegistryTest, RefusesAFileThatIsNoLibrary) {
  const fs::path file = fs::path(testing::TempDir()) / "libpenstock_backend_text.so";
  std::ofstream(file) << "text";
  const Error error = error_of(file);
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_TRUE(error.message().starts_with(quoted(file) + ": ")) << error.message();
}

TEST(RegistryTest, NamesAPluginThatIsNotThere) {
  const Error error = error_of("absent.so");
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_EQ(error.message(), "plugin 'absent.so': no such file");
}

TEST(RegistryTest, ListsWhatThereIsWhenABackendIsNot) {
  Registry registry;
  ASSERT_TRUE(registry.add_plugin(plugin("good")));
  const auto backend = registry.find("tvm");
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, Code::kNotFound);
  EXPECT_EQ(
      backend.error().message(),
      "backend 'tvm': there is none of that name; there are: nothing; PENSTOCK_PLUGIN_PATH names "
      "folders with further ones");
}

TEST(RegistryTest, LoadsAFolderAndKeepsTheProblemsItMet) {
  setenv("PENSTOCK_PLUGIN_PATH", PENSTOCK_TEST_PLUGINS ":/absent", 1);
  const Registry registry = Registry::load();
  unsetenv("PENSTOCK_PLUGIN_PATH");
  EXPECT_TRUE(registry.find("nothing"));
  ASSERT_EQ(registry.problems().size(), 4U);
  EXPECT_TRUE(registry.problems()[0].starts_with(quoted(plugin("abi")) + ": built for"));
  EXPECT_EQ(registry.problems()[3], "PENSTOCK_PLUGIN_PATH: '/absent': no such folder or file");
  EXPECT_NE(registry.find("tvm").error().message().find("not loaded: plugin '"), std::string::npos);
}

TEST(RegistryTest, TellsOfNamedPlacesWithoutPlugins) {
  const fs::path folder = fs::path(testing::TempDir()) / "places_of_plugins";
  fs::create_directories(folder / "backends");
  const auto quoted_folder = [&](const char* name) { return "'" + (folder / name).string() + "'"; };
  const auto places = concat((folder / "backend").string(), ":", (folder / "backends").string(),
                             "::", PENSTOCK_TEST_PLUGINS);
  setenv("PENSTOCK_PLUGIN_PATH", places.c_str(), 1);
  const auto empty = empty_places();
  const Registry registry = Registry::load();
  unsetenv("PENSTOCK_PLUGIN_PATH");
  fs::remove_all(folder);
  const std::vector<std::string> told = {
      concat("PENSTOCK_PLUGIN_PATH: ", quoted_folder("backend"),
             ": no such folder or file; did you mean 'backends'?"),
      concat("PENSTOCK_PLUGIN_PATH: ", quoted_folder("backends"),
             ": no plugin in this folder: expected libpenstock_backend_*.so")};
  EXPECT_EQ(empty, told);
  EXPECT_EQ(std::vector(registry.problems().end() - 2, registry.problems().end()), told);
  EXPECT_TRUE(registry.find("nothing"));
}

}  // namespace
}  // namespace penstock::backend
