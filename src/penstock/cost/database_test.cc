// Keys, filters, imports, files of other versions and rights, and writers killed while they write.
#include "penstock/cost/database.h"

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "penstock/cost/peaks_json.h"
#include "penstock/cost/sqlite.h"
#include "penstock/graph/test_support.h"
#include "tests/support/temporary_folder.h"

namespace penstock::cost {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

PartKey key(const std::string& model, int threads = 1) {
  return {model, "like-" + model, "f32[1]", "f32",   "acme",
          "1.0", "machine/1",     threads,  "alone", ""};
}

Cost cost(double seconds) {
  return {seconds, seconds * 0.99, seconds * 1.01, 1000, {}};
}

Cost failed(FailureKind kind, const std::string& message) {
  Cost cost;
  cost.failure = Failure{kind, message};
  return cost;
}

Database open(const fs::path& file) {
  auto database = Database::open(file);
  if (!database) throw std::runtime_error(database.error().message());
  return *std::move(database);
}

Error error_of(const fs::path& file) {
  const auto database = Database::open(file);
  EXPECT_FALSE(database);
  return database ? Error{} : database.error();
}

/// What a user may do who owns nothing, while it lives; root itself may do all.
class AsNobody {
 public:
  AsNobody() {
    if (::geteuid() == 0) changed_ = ::seteuid(kNobody) == 0;
  }
  ~AsNobody() {
    if (changed_ && ::seteuid(0) != 0) std::abort();
  }
  AsNobody(const AsNobody&) = delete;
  AsNobody& operator=(const AsNobody&) = delete;

 private:
  static constexpr uid_t kNobody = 65534;
  bool changed_ = false;
};

/// A file that may only be read, in a folder that may or may not be written.
void read_what_may_only_be_read(fs::perms of_folder) {
  const TemporaryFolder folder;
  const auto below = folder.path() / "a ?#% name";  // A folder by whose name no URI may be misled.
  const auto file = below / "costs.db";
  ASSERT_TRUE(open(file).put(key("m"), cost(0.25)));
  constexpr auto kReadOnly = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  fs::permissions(file, kReadOnly);
  fs::permissions(folder.path(), fs::perms::all);
  fs::permissions(below, of_folder);
  {
    const AsNobody nobody;
    auto database = Database::open(file);
    ASSERT_TRUE(database) << database.error().message();
    const auto found = database->find(key("m"));
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, std::optional(cost(0.25)));
    EXPECT_EQ(database->put(key("n"), cost(1)).error().code, Code::kPermissionDenied);
    std::vector<std::string> told;
    database->go_on_without([&](const std::string& why) { told.push_back(why); });
    for (const auto* model : {"n", "o"}) {
      ASSERT_TRUE(database->put(key(model), cost(1)));
      EXPECT_EQ(*database->find(key(model)), std::optional(cost(1)));
    }
    EXPECT_EQ(*database->find(key("m")), std::optional(cost(0.25))) << "the file is read still";
    ASSERT_EQ(told.size(), 1);
    EXPECT_THAT(told.front(), HasSubstr("cannot be opened or written"));
  }
  fs::permissions(below, fs::perms::all);  // So that it can go.
}

TEST(DatabaseTest, AFileThatMayOnlyBeReadIsRead) {
  read_what_may_only_be_read(fs::perms::all);
}

TEST(DatabaseTest, AFileInAFolderThatMayOnlyBeReadIsRead) {
  read_what_may_only_be_read(fs::perms::all & ~(fs::perms::owner_write | fs::perms::group_write |
                                                fs::perms::others_write));
}

TEST(DatabaseTest, KeepsWhatItWasGivenUnderTheWholeKey) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "below" / "costs.db";
  ASSERT_TRUE(open(file).put(key("m"), cost(0.25), "the part"));
  auto database = open(file);
  EXPECT_EQ(**database.find(key("m")), cost(0.25));
  EXPECT_FALSE(*database.find(key("m", 2)));
  for (const auto member :
       {&PartKey::inputs, &PartKey::precision, &PartKey::backend, &PartKey::engine,
        &PartKey::device, &PartKey::condition, &PartKey::options}) {
    PartKey other = key("m");
    other.*member = "another";
    EXPECT_FALSE(*database.find(other));
  }
}

TEST(DatabaseTest, ReplacesAnOlderResult) {
  auto database = *Database::in_memory();
  ASSERT_TRUE(database.put(key("m"), failed(FailureKind::kHang, "too long")));
  ASSERT_TRUE(database.put(key("m"), cost(2)));
  EXPECT_EQ(**database.find(key("m")), cost(2));
}

TEST(DatabaseTest, KeepsFailuresWithTheirSentence) {
  auto database = *Database::in_memory();
  for (const auto kind :
       {FailureKind::kCompile, FailureKind::kRun, FailureKind::kCrash, FailureKind::kHang,
        FailureKind::kOutOfMemory, FailureKind::kWrongOutput}) {
    const auto failure = failed(kind, concat("it ended with ", to_string(kind)));
    ASSERT_TRUE(database.put(key("m"), failure));
    EXPECT_EQ((*database.find(key("m")))->failure, failure.failure);
  }
}

TEST(DatabaseTest, PartsAlikeButForTheirWeightsShareACost) {
  auto database = *Database::in_memory();
  PartKey twin = key("m");
  twin.model = "other weights";
  ASSERT_TRUE(database.put(key("m"), cost(1)));
  EXPECT_EQ(**database.find(twin), cost(1));
}

TEST(DatabaseTest, AWrongOutputIsNotShared) {
  auto database = *Database::in_memory();
  PartKey twin = key("m");
  twin.model = "other weights";
  ASSERT_TRUE(database.put(key("m"), failed(FailureKind::kWrongOutput, "differs")));
  EXPECT_FALSE(*database.find(twin));
  EXPECT_TRUE(*database.find(key("m")));
}

TEST(DatabaseTest, RefusesFiguresThatAreNone) {
  auto database = *Database::in_memory();
  for (const double seconds : {double{NAN}, double{INFINITY}, -1.0, 0.0}) {
    EXPECT_EQ(database.put(key("m"), cost(seconds)).error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(database.put({"p", "d", "e"}, PlanResult{{1, NAN}, ""}).error().code,
            Code::kInvalidArgument);
  EXPECT_FALSE(*database.find(key("m")));
}

TEST(DatabaseTest, KeepsChecksBoundariesLinksAndPlans) {
  auto database = *Database::in_memory();
  const CheckKey check_key{"m", "f32[1]", "f32", "acme", "1", "onnxruntime 1",
                           "d", 1,        "",    "0,1",  "t"};
  const Check check{0.5, "y", "seed 1 [0]", {}};
  ASSERT_TRUE(database.put(check_key, check));
  EXPECT_EQ(**database.find(check_key), check);
  const BoundaryKey boundary_key{"a", "1", "b", "2", "plain", 4096, "d"};
  const Boundary boundary{-1e-7, 2e-6, 500, {}};
  ASSERT_TRUE(database.put(boundary_key, boundary));
  EXPECT_EQ(**database.find(boundary_key), boundary);
  const Link link{1e-7, 2e10};
  ASSERT_TRUE(database.put_link("cpu:0", "cpu:1", "d", link));
  EXPECT_EQ(**database.find_link("cpu:0", "cpu:1", "d"), link);
  const PlanKey plan_key{"p", "d", "a 1"};
  const PlanResult result{{100.5, 0.1, 1e7 / 3}, "text"};
  ASSERT_TRUE(database.put(plan_key, result));
  EXPECT_EQ(**database.find(plan_key), result);
}

/// Two widths and two levels.
Peaks peaks(double flops) {
  return {{{"sse", flops / 4}, {"avx2", flops}}, {{"L1", 32768, 1e11}, {"memory", 0, 1e10}}};
}

TEST(DatabaseTest, KeepsPeaksOfEachDevice) {
  auto database = *Database::in_memory();
  EXPECT_FALSE(*database.find_peaks("m/1cpu"));
  ASSERT_TRUE(database.put_peaks("m/1cpu", peaks(1e11)));
  ASSERT_TRUE(database.put_peaks("m/2cpu", peaks(2e11)));
  EXPECT_EQ(**database.find_peaks("m/1cpu"), peaks(1e11));
  ASSERT_TRUE(database.put_peaks("m/1cpu", peaks(3e11)));
  EXPECT_EQ(**database.find_peaks("m/1cpu"), peaks(3e11));
  const Peaks fewer{{{"avx2", 1e11}}, {{"memory", 0, 1e10}}};  // A level more comes before memory.
  ASSERT_TRUE(database.put_peaks("m/1cpu", fewer));
  EXPECT_EQ(**database.find_peaks("m/1cpu"), fewer);
  ASSERT_TRUE(database.put_peaks("m/1cpu", peaks(3e11)));
  EXPECT_EQ(**database.find_peaks("m/1cpu"), peaks(3e11));
  EXPECT_EQ(**database.find_peaks("m/2cpu"), peaks(2e11));
  EXPECT_FALSE(database.put_peaks("m/1cpu", peaks(INFINITY)));
}

TEST(PeaksTest, ComeBackFromTheirText) {
  const Peaks known{{{"sse", 1e11}, {"avx2", 2e11}}, {{"L1", 32768, 4e11}, {"memory", 0, 1e10}}};
  const auto text = to_json(known);
  EXPECT_NE(text.find(R"({"name":"memory","bytes":null,"bytes_per_second":)"), std::string::npos);
  const auto read = peaks_from_json(text);
  ASSERT_TRUE(read) << read.error().message();
  EXPECT_EQ(*read, known);
  for (const auto* other : {"", "{}", R"({"fp32": 1, "reading": []})"}) {
    EXPECT_EQ(peaks_from_json(other).error().code, Code::kInvalidArgument) << other;
  }
}

/// A file as versions before peaks left it.
void make_old(const std::filesystem::path& file) {
  open(file);
  ASSERT_TRUE(Connection::open(file, Connection::Mode::kWrite)
                  ->execute("DROP TABLE peaks; PRAGMA user_version = 1"));
}

TEST(DatabaseTest, AnOlderFileIsBroughtUpToDate) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "costs.db";
  ASSERT_TRUE(Database::open(file)->put(key("m"), cost(1)));
  make_old(file);
  auto database = *Database::open(file);
  EXPECT_EQ((*database.find(key("m")))->seconds, 1);
  ASSERT_TRUE(database.put_peaks("m/1cpu", peaks(1e11)));
  EXPECT_EQ(**Database::open(file)->find_peaks("m/1cpu"), peaks(1e11));
}

TEST(DatabaseTest, AFileWhoseVersionAndTablesContradictIsDamaged) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "costs.db";
  open(file);
  ASSERT_TRUE(Connection::open(file, Connection::Mode::kWrite)->execute("PRAGMA user_version = 1"));
  const auto error = Database::open(file).error();
  EXPECT_EQ(error.code, Code::kDataLoss);
  EXPECT_THAT(error.message(), HasSubstr("not a cost database, or damaged ("));
  EXPECT_THAT(error.message(), HasSubstr("remove it, or name another file"));
}

TEST(PeaksTest, TheLevelThatHoldsTheBytesCounts) {
  const Peaks known = peaks(1e11);
  EXPECT_EQ(known.flops_per_second(), 1e11);
  EXPECT_EQ(known.level_of(32768)->name, "L1");
  EXPECT_EQ(known.level_of(32769)->name, "memory");
  EXPECT_EQ(Peaks().level_of(1), nullptr);
  EXPECT_EQ(Peaks().flops_per_second(), 0);
}

TEST(DatabaseTest, ExportsAndImportsTheSame) {
  auto from = *Database::in_memory();
  ASSERT_TRUE(from.put(key("m"), cost(1e7 / 3)));
  ASSERT_TRUE(from.put(key("n"), failed(FailureKind::kCrash, "killed by SIGSEGV")));
  ASSERT_TRUE(from.put({"p", "d", "a 1"}, PlanResult{{1.0 / 3}, "text"}));
  ASSERT_TRUE(from.put_peaks("m/1cpu", peaks(1e11)));
  const auto text = *from.export_text({});
  auto to = *Database::in_memory();
  const auto count = to.import_text(text);
  ASSERT_TRUE(count) << count.error().message();
  EXPECT_EQ(count->added, 7);
  EXPECT_EQ(*to.export_text({}), text);
  EXPECT_EQ(to.import_text(text)->kept, 7);
}

TEST(DatabaseTest, AnImportLeavesWhatIsThere) {
  auto from = *Database::in_memory();
  ASSERT_TRUE(from.put(key("m"), cost(1)));
  auto to = *Database::in_memory();
  ASSERT_TRUE(to.put(key("m"), cost(2)));
  ASSERT_TRUE(to.import_text(*from.export_text({})));
  EXPECT_EQ(**to.find(key("m")), cost(2));
}

TEST(DatabaseTest, ABadImportNamesThePlaceAndAddsNothing) {
  auto from = *Database::in_memory();
  ASSERT_TRUE(from.put(key("m"), cost(1)));
  auto text = *from.export_text({});
  text.replace(text.find(R"("threads": 1)"), 12, R"("threads": "")");
  auto to = *Database::in_memory();
  const auto count = to.import_text(text);
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().message(), "parts[0]: parts.threads: expected an integer, found ''");
  EXPECT_FALSE(*to.find(key("m")));
  EXPECT_FALSE(to.import_text("{"));
  EXPECT_FALSE(to.import_text("[]"));
  EXPECT_THAT(to.import_text(R"({"version": 99})").error().message(), HasSubstr("update Penstock"));
}

TEST(DatabaseTest, AnImportOfTimesThatCannotBeIsRefused) {
  auto from = *Database::in_memory();
  ASSERT_TRUE(from.put(key("m"), cost(1)));
  const auto good = nlohmann::json::parse(*from.export_text({}));
  const auto error = [&](const char* field, const nlohmann::json& value) {
    auto changed = good;
    changed["parts"][0][field] = value;
    auto to = *Database::in_memory();
    const auto count = to.import_text(changed.dump());
    return count ? "" : count.error().message();
  };
  EXPECT_EQ(error("seconds", 1), "");
  EXPECT_EQ(error("seconds", 0),
            "parts[0]: parts.seconds: expected a number from 1e-09 to 1e+07, found 0");
  EXPECT_EQ(error("seconds", 1e308),
            "parts[0]: parts.seconds: expected a number from 1e-09 to 1e+07, found 1e+308");
  EXPECT_EQ(error("high", 1e308),
            "parts[0]: parts.high: expected a number from 1e-09 to 1e+07, found 1e+308");
  EXPECT_EQ(error("seconds", 3),
            "parts[0]: parts.seconds: expected a number from 0.99 to 1.01, its low and high, "
            "found 3");
  EXPECT_EQ(error("seconds", nullptr),
            "parts[0]: parts.seconds: expected a number, or a failure, found nothing");
  EXPECT_EQ(error("low", nullptr),
            "parts[0]: parts.low: expected a number, or a failure, found nothing");
  EXPECT_EQ(error("seconds", true), "parts[0]: parts.seconds: expected a number, found true");
}

TEST(DatabaseTest, AnImportOfCountsAndFailuresThatCannotBeIsRefused) {
  auto from = *Database::in_memory();
  ASSERT_TRUE(from.put(key("m"), cost(1)));
  ASSERT_TRUE(from.put(key("n"), failed(FailureKind::kCrash, "")));
  const auto good = nlohmann::json::parse(*from.export_text({}));
  const auto error = [&](int row, const char* field, const nlohmann::json& value) {
    auto changed = good;
    changed["parts"][row][field] = value;
    auto to = *Database::in_memory();
    const auto count = to.import_text(changed.dump());
    return count ? "" : count.error().message();
  };
  EXPECT_EQ(error(0, "runs", 1), "");
  EXPECT_EQ(error(0, "runs", 0), "parts[0]: parts.runs: expected an integer from 1, found 0");
  EXPECT_EQ(error(1, "runs", 0), "");
  EXPECT_EQ(error(1, "runs", -1), "parts[1]: parts.runs: expected an integer from 0, found -1");
  EXPECT_EQ(error(0, "threads", 0), "parts[0]: parts.threads: expected an integer from 1, found 0");
  EXPECT_EQ(error(0, "measured_at", -1),
            "parts[0]: parts.measured_at: expected an integer from 0, found -1");
  EXPECT_EQ(
      error(1, "failure", "gremlin"),
      "parts[1]: parts.failure: expected a kind of failure, such as 'crash', found 'gremlin'");
  EXPECT_EQ(error(1, "failure", "hang"), "");
}

TEST(DatabaseTest, AnImportOfAFailureAfterATimeThatCannotBeIsRefused) {
  auto from = *Database::in_memory();
  ASSERT_TRUE(from.put(key("m"), failed(FailureKind::kHang, "")));
  auto text = nlohmann::json::parse(*from.export_text({}));
  auto to = *Database::in_memory();
  EXPECT_TRUE(to.import_text(text.dump()));
  text["parts"][0]["low"] = 1e15;
  const auto count = to.import_text(text.dump());
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().message(),
            "parts[0]: parts.low: expected a number from 1e-09 to 1e+07, found 1e+15");
}

TEST(DatabaseTest, AnImportOfOtherFiguresThatCannotBeIsRefused) {
  const auto error = [](const char* table, const nlohmann::json& row) {
    auto to = *Database::in_memory();
    const auto count = to.import_text(nlohmann::json({{"version", 2}, {table, {row}}}).dump());
    return count ? "" : count.error().message();
  };
  nlohmann::json link = {{"source", "a"},        {"target", "b"},           {"device", "d"},
                         {"latency_seconds", 0}, {"bytes_per_second", 1e9}, {"measured_at", 1}};
  EXPECT_EQ(error("links", link), "");
  link["latency_seconds"] = 1e308;
  EXPECT_EQ(error("links", link),
            "links[0]: links.latency_seconds: expected a number up to 1e+18, found 1e+308");
  nlohmann::json peak = {{"device", "d"}, {"kind", "fp32"},    {"name", "plain"},
                         {"bytes", 0},    {"per_second", 1e9}, {"measured_at", 1}};
  EXPECT_EQ(error("peaks", peak), "");
  peak["per_second"] = 1e300;
  EXPECT_EQ(error("peaks", peak),
            "peaks[0]: peaks.per_second: expected a number up to 1e+18, found 1e+300");
  peak["per_second"] = 0;
  EXPECT_EQ(error("peaks", peak), "peaks[0]: peaks.per_second: expected a number over 0, found 0");
}

TEST(DatabaseTest, ForgetsWhatAFilterMeans) {
  auto database = *Database::in_memory();
  PartKey other = key("other");
  other.backend = "acme+zenith";
  ASSERT_TRUE(database.put(key("m"), cost(1)));
  ASSERT_TRUE(database.put(key("n"), failed(FailureKind::kHang, "")));
  ASSERT_TRUE(database.put(other, cost(1)));
  EXPECT_EQ(*database.forget({"zeni", "", false}), 0);
  EXPECT_EQ(*database.forget({"zenith", "", false}), 1);
  EXPECT_EQ(*database.forget({"", "", true}), 1);
  EXPECT_EQ(*database.forget({"", "mm", false}), 0);
  EXPECT_EQ(*database.forget({}), 1);
}

TEST(DatabaseTest, RefusesAFileThatIsNoDatabase) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "costs.db";
  std::ofstream(file) << std::string(5000, 'x');
  const auto error = error_of(file);
  EXPECT_EQ(error.code, Code::kDataLoss);
  EXPECT_THAT(error.message(),
              HasSubstr("'" + file.string() + "': not a cost database, or damaged"));
  EXPECT_THAT(error.message(), HasSubstr("remove it, or name another file with PENSTOCK_COSTS"));
}

TEST(DatabaseTest, RefusesAFileWithDamagedPages) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "costs.db";
  {
    auto database = *Database::open(file);
    ASSERT_TRUE(database.put(key("m"), cost(1)));
  }
  {
    std::fstream pages(file, std::ios::in | std::ios::out | std::ios::binary);
    pages.seekp(4096);  // Behind the first page, which tells whose file it is.
    pages << std::string(fs::file_size(file) - 4096, 'x');
  }
  const auto error = error_of(file);
  EXPECT_EQ(error.code, Code::kDataLoss);
  EXPECT_THAT(error.message(), HasSubstr("not a cost database, or damaged"));
}

/// Of 20 MiB, `damaged` at 16.
fs::path large_file(const fs::path& folder, bool damaged) {
  constexpr int kRows = 200;
  auto file = folder / "costs.db";
  {
    auto database = *Database::open(file);
    for (int i = 0; i < kRows; ++i) {
      EXPECT_TRUE(database.put(key(concat("model", i)), cost(1), std::string(100'000, 'n')));
    }
  }
  if (damaged) {
    std::fstream pages(file, std::ios::in | std::ios::out | std::ios::binary);
    pages.seekp(16 << 20);
    pages << std::string(40'000, 'x');
  }
  return file;
}

TEST(DatabaseTest, ALargeFileIsNotReadWholeToBeOpened) {
  const TemporaryFolder folder;
  auto opened = Database::open(large_file(folder.path(), true));
  ASSERT_TRUE(opened) << opened.error().message();
  auto& database = *opened;
  EXPECT_TRUE(database.find(key("model1")));  // Before the damage.
  const auto all = database.export_text({});
  ASSERT_FALSE(all);
  EXPECT_THAT(all.error().message(), HasSubstr("not a cost database, or damaged"));
  EXPECT_THAT(all.error().message(), HasSubstr("remove it, or name another file"));
}

TEST(DatabaseTest, GoesOnWithoutAFileThatTurnsOutToBeDamaged) {
  const TemporaryFolder folder;
  const auto file = large_file(folder.path(), true);
  auto database = *Database::open(file);
  int hit = 0;  // The row on the damaged pages.
  while (hit < 200 && database.find(key(concat("model", hit)))) ++hit;
  const auto damaged = key(concat("model", hit));
  ASSERT_EQ(database.find(damaged).error().code, Code::kDataLoss);
  std::vector<std::string> told;
  database.go_on_without([&](const std::string& why) { told.push_back(why); });
  const auto none = database.find(damaged);
  ASSERT_TRUE(none) << none.error().message();
  EXPECT_FALSE(*none);
  ASSERT_TRUE(database.put(damaged, cost(2)));
  EXPECT_EQ(**database.find(damaged), cost(2));
  EXPECT_FALSE(*database.find(key("model1"))) << "what such a file says is not to be trusted";
  ASSERT_TRUE(database.put_peaks("d", peaks(1e11)));
  EXPECT_EQ(**database.find_peaks("d"), peaks(1e11));
  ASSERT_EQ(told.size(), 1);
  EXPECT_THAT(told.front(), HasSubstr("'" + file.string() + "': not a cost database, or damaged"));
  EXPECT_THAT(told.front(), ::testing::EndsWith("; what is measured now will be measured again"));
}

TEST(DatabaseTest, ALargeFileWhoseWriterDidNotEndWellIsRead) {
  const TemporaryFolder folder;
  const auto file = large_file(folder.path(), true);
  std::ofstream(file.string() + "-wal") << "what a writer left";
  EXPECT_THAT(error_of(file).message(), HasSubstr("not a cost database, or damaged"));
}

TEST(DatabaseTest, RefusesAnotherProgramsDatabase) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "costs.db";
  {
    auto connection = *Connection::open(file, Connection::Mode::kWrite);
    ASSERT_TRUE(connection.execute("CREATE TABLE songs (name TEXT)"));
  }
  const auto error = error_of(file);
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message(), HasSubstr("the database of another program"));
}

TEST(DatabaseTest, RefusesANewerVersion) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "costs.db";
  open(file);
  ASSERT_TRUE(
      Connection::open(file, Connection::Mode::kWrite)->execute("PRAGMA user_version = 99"));
  const auto error = error_of(file);
  EXPECT_EQ(error.code, Code::kFailedPrecondition);
  EXPECT_THAT(error.message(), HasSubstr("of version 99"));
  EXPECT_THAT(error.message(), HasSubstr("update Penstock"));
}

TEST(DatabaseTest, SaysWhatToDoWhereNothingCanBeWritten) {
  const auto error = error_of("/proc/penstock/costs.db");
  EXPECT_EQ(error.code, Code::kPermissionDenied);
  EXPECT_THAT(error.message(), HasSubstr("/proc/penstock"));
  EXPECT_THAT(error.message(), HasSubstr("PENSTOCK_COSTS"));
}

TEST(DatabaseTest, ItsDefaultPlaceIsNamedOrInTheUsersCache) {
  ::setenv("PENSTOCK_COSTS", "/a/b.db", 1);
  EXPECT_EQ(Database::default_path(), "/a/b.db");
  ::unsetenv("PENSTOCK_COSTS");
  ::setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(Database::default_path(), "/cache/penstock/costs.db");
  ::unsetenv("XDG_CACHE_HOME");
  ::setenv("HOME", "/home/me", 1);
  EXPECT_EQ(Database::default_path(), "/home/me/.cache/penstock/costs.db");
  ::unsetenv("HOME");
  const auto without = Database::default_path();
  EXPECT_TRUE(without.empty() || without.is_absolute())
      << "never in the current folder: " << without;
  EXPECT_EQ(error_of("").code, Code::kNotFound);
}

/// Writes rows "<name>0", "<name>1", ...; tells each by one byte once it is kept. Never returns.
[[noreturn]] void write_rows(const fs::path& file, const std::string& name, int count, int told) {
  auto database = Database::open(file);
  if (!database) std::_Exit(1);
  for (int i = 0; i < count; ++i) {
    if (!database->put(key(concat(name, i)), cost(1))) std::_Exit(2);
    if (::write(told, "x", 1) != 1) std::_Exit(3);
  }
  std::_Exit(0);
}

struct Child {
  int pid = 0;
  int told = 0;
};

Child start_writer(const fs::path& file, const std::string& name, int count) {
  int ends[2] = {};
  if (::pipe(ends) != 0) throw std::runtime_error("no pipe");
  const int pid = ::fork();
  if (pid == 0) write_rows(file, name, count, ends[1]);
  ::close(ends[1]);
  return {pid, ends[0]};
}

/// Bytes until the end.
int count_told(int told) {
  int count = 0;
  for (char byte = 0; ::read(told, &byte, 1) == 1;) ++count;
  ::close(told);
  return count;
}

TEST(DatabaseTest, TwoProcessesMakeAndWriteOneFile) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "costs.db";
  constexpr int kRows = 100;
  const Child a = start_writer(file, "a", kRows);
  const Child b = start_writer(file, "b", kRows);
  EXPECT_EQ(count_told(a.told), kRows);
  EXPECT_EQ(count_told(b.told), kRows);
  for (const Child& child : {a, b}) {
    int status = 0;
    ::waitpid(child.pid, &status, 0);
    EXPECT_EQ(status, 0);
  }
  auto database = open(file);
  for (int i = 0; i < kRows; ++i) {
    EXPECT_TRUE(*database.find(key(concat("a", i))));
    EXPECT_TRUE(*database.find(key(concat("b", i))));
  }
}

TEST(DatabaseTest, AKilledWriterLosesNothingThatItWasToldIsKept) {
  const TemporaryFolder folder;
  const auto file = folder.path() / "costs.db";
  std::mt19937 random(7);  // NOLINT(bugprone-random-generator-seed): the same moments each time
  for (int round = 0; round < 50; ++round) {
    const std::string name = concat("round", round, "-");
    const Child child = start_writer(file, name, 1'000'000);
    // Killed after so many rows, wherever it is then; 0: while it opens.
    const int least = static_cast<int>(random() % 20);
    int told = 0;
    for (char byte = 0; told < least && ::read(child.told, &byte, 1) == 1;) ++told;
    ::kill(child.pid, SIGKILL);
    ::waitpid(child.pid, nullptr, 0);
    told += count_told(child.told);
    auto database = Database::open(file);
    ASSERT_TRUE(database) << database.error().message();
    for (int i = 0; i < told; ++i) ASSERT_TRUE(*database->find(key(concat(name, i))));
  }
  const auto sound =
      Connection::open(file, Connection::Mode::kWrite)->value("PRAGMA integrity_check");
  EXPECT_EQ(std::get<std::string>(*sound), "ok");
}

}  // namespace
}  // namespace penstock::cost
