// Where a trace's file lies while it is written, and what stays where it cannot be.
#include "penstock/pipeline/trace_file.h"

#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <iterator>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/support/temporary_folder.h"

namespace penstock::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// What the file holds; of a pipe what comes until its writer closes it.
std::string text_in(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() { std::ofstream(file_) << "older"; }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      names.push_back(entry.path().filename().string());
    }
    return names;
  }

  const TemporaryFolder folder_;
  const std::filesystem::path file_ = folder_.path() / "trace.json";
};

TEST_F(TraceFileTest, HasItsNameOnlyWhenItIsWhole) {
  auto trace = TraceFile::create(file_);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->add_process("p"), 1);
  EXPECT_EQ(text_in(file_), "older");
  EXPECT_TRUE(trace->close());
  EXPECT_THAT(text_in(file_), HasSubstr("process_name"));
  EXPECT_THAT(names(), ElementsAre("trace.json"));
}

TEST_F(TraceFileTest, LeavesTheOlderOneWhereItIsGivenUp) {
  {
    auto trace = TraceFile::create(file_);
    ASSERT_TRUE(trace);
    EXPECT_EQ(trace->add_process("p"), 1);
  }
  EXPECT_EQ(text_in(file_), "older");
  EXPECT_THAT(names(), ElementsAre("trace.json"));
}

TEST_F(TraceFileTest, LeavesTheOlderOneWhereTheDiskIsFull) {
  auto trace = TraceFile::create(file_);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->add_process("p"), 1);
  ::rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  auto* const handler = std::signal(SIGXFSZ, SIG_IGN);
  const ::rlimit little{1, before.rlim_max};
  ::setrlimit(RLIMIT_FSIZE, &little);  // What is written from now on is refused.
  const Status closed = trace->close();
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  ASSERT_FALSE(closed);
  EXPECT_EQ(closed.error().code, Code::kResourceExhausted);
  EXPECT_EQ(text_in(file_), "older");
  EXPECT_THAT(names(), ElementsAre("trace.json"));
}

TEST_F(TraceFileTest, WritesPipesAndThroughLinksInPlace) {
  const auto pipe = folder_.path() / "pipe", link = folder_.path() / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_symlink(file_, link);
  auto got = std::async(std::launch::async, [&] { return text_in(pipe); });
  for (const auto& file : {pipe, link}) {
    auto trace = TraceFile::create(file);
    ASSERT_TRUE(trace);
    EXPECT_TRUE(trace->close());
  }
  EXPECT_THAT(got.get(), HasSubstr("traceEvents"));
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_THAT(text_in(file_), HasSubstr("traceEvents"));
}

/// The folder may be one that takes no other file; root may write there all the same.
TEST_F(TraceFileTest, IsWrittenInPlaceWhereNothingCanLieBesideIt) {
  std::filesystem::create_directory(file_.string() + ".part");
  auto trace = TraceFile::create(file_);
  ASSERT_TRUE(trace);
  EXPECT_TRUE(trace->close());
  EXPECT_THAT(text_in(file_), HasSubstr("traceEvents"));
}

}  // namespace
}  // namespace penstock::pipeline
