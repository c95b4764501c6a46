// Contents in a temporary folder: wrong hashes, room by last use, restarts, and files laid out.
#include "penstock/host/contents.h"

#include <atomic>
#include <fstream>
#include <sstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "penstock/base/hash.h"
#include "tests/support/temporary_folder.h"

namespace penstock::host {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string read_file(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}

class ContentsTest : public ::testing::Test {
 protected:
  std::shared_ptr<Contents> open(std::uint64_t most_bytes = 100) {
    auto opened = Contents::open(folder_.path(), most_bytes);
    EXPECT_TRUE(opened) << opened.error().message();
    return *std::move(opened);
  }

  static Result<HeldContent> put(Contents& contents, const std::string& text) {
    PENSTOCK_TRY(const auto writer, contents.begin(sha256_of(text), text.size()));
    PENSTOCK_CHECK_OK(writer->add(bytes_of(text)));
    return writer->finish();
  }

  [[nodiscard]] std::size_t files_in(const char* name) const {
    const fs::directory_iterator at(folder_.path() / name);
    return static_cast<std::size_t>(std::distance(begin(at), end(at)));
  }

  TemporaryFolder folder_;
};

TEST_F(ContentsTest, FindsWhatWasPut) {
  const auto contents = open();
  EXPECT_EQ(contents->find(sha256_of("abc")), nullptr);
  const auto put_one = put(*contents, "abc");
  ASSERT_TRUE(put_one) << put_one.error().message();
  EXPECT_EQ(contents->find(sha256_of("abc")), *put_one);
  EXPECT_EQ(read_file((*put_one)->file), "abc");
  EXPECT_EQ(contents->bytes(), 3U);
}

TEST_F(ContentsTest, TakesAContentInPieces) {
  const auto contents = open();
  const std::string text = "in three pieces";
  const auto writer = contents->begin(sha256_of(text), text.size());
  ASSERT_TRUE(writer);
  for (const auto& piece : {text.substr(0, 2), std::string(), text.substr(2)}) {
    ASSERT_TRUE((*writer)->add(bytes_of(piece)));
  }
  EXPECT_TRUE((*writer)->finish());
}

TEST_F(ContentsTest, RefusesAnotherHashAndLeavesNothing) {
  const auto contents = open();
  {
    const auto writer = contents->begin(sha256_of("abc"), 3);
    ASSERT_TRUE((*writer)->add(bytes_of("abd")));
    EXPECT_EQ((*writer)->finish().error().code, Code::kDataLoss);
  }
  EXPECT_EQ(contents->find(sha256_of("abc")), nullptr);
  EXPECT_EQ(contents->bytes(), 0U);
  EXPECT_EQ(files_in("incoming"), 0U);
}

TEST_F(ContentsTest, RefusesMoreAndFewerBytesThanWereSaid) {
  const auto contents = open();
  const auto writer = contents->begin(sha256_of("abc"), 3);
  EXPECT_EQ((*writer)->add(bytes_of("abcd")).error().code, Code::kInvalidArgument);
  ASSERT_TRUE((*writer)->add(bytes_of("ab")));
  EXPECT_EQ((*writer)->finish().error().code, Code::kInvalidArgument);
}

TEST_F(ContentsTest, RefusesWhatIsNoHash) {
  const auto contents = open();
  const std::string path = "../../" + std::string(58, 'a');
  EXPECT_EQ(contents->begin(path, 3).error().code, Code::kInvalidArgument);
  EXPECT_EQ(contents->begin(std::string(64, 'A'), 3).error().code, Code::kInvalidArgument);
  EXPECT_EQ(contents->find(path), nullptr);
}

// Another caller needs room while one that was there before is put a second time.
TEST_F(ContentsTest, WhatWasPutHasItsFileWhoeverMakesRoomMeanwhile) {
  const fs::path memory = "/dev/shm";  // Where a file is written at once.
  const TemporaryFolder folder(fs::exists(memory) ? memory : fs::temp_directory_path());
  const auto contents = *Contents::open(folder.path(), 2);
  std::atomic<bool> ends{false};
  std::thread other([&] {
    while (!ends) static_cast<void>(put(*contents, "b"));
  });
  int gone = 0;
  for (int i = 0; i < 5000; ++i) {
    static_cast<void>(put(*contents, "a"));  // There, and held by nobody.
    const auto again = put(*contents, "a");
    if (again && !fs::exists((*again)->file)) ++gone;
  }
  ends = true;
  other.join();
  EXPECT_EQ(gone, 0);
}

TEST_F(ContentsTest, MakesRoomByTheOneUsedLastLongestAgo) {
  const auto contents = open(10);
  ASSERT_TRUE(put(*contents, "aaaa"));
  ASSERT_TRUE(put(*contents, "bbbb"));
  EXPECT_NE(contents->find(sha256_of("aaaa")), nullptr);
  ASSERT_TRUE(put(*contents, "cccc"));
  EXPECT_NE(contents->find(sha256_of("aaaa")), nullptr);
  EXPECT_EQ(contents->find(sha256_of("bbbb")), nullptr);
  EXPECT_EQ(files_in("contents"), 2U);
}

TEST_F(ContentsTest, KeepsWhatIsHeld) {
  const auto contents = open(10);
  const auto first = put(*contents, "aaaa"), second = put(*contents, "bbbb");
  const auto refused = put(*contents, "cccc");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(read_file((*first)->file), "aaaa");
  EXPECT_EQ(contents->bytes(), 8U);
}

TEST_F(ContentsTest, RefusesWhatIsLargerThanAllRoom) {
  const auto contents = open(10);
  EXPECT_EQ(contents->begin(sha256_of("x"), 11).error().code, Code::kResourceExhausted);
  EXPECT_EQ(contents->begin(sha256_of("x"), UINT64_MAX).error().code, Code::kResourceExhausted);
  EXPECT_EQ(contents->bytes(), 0U);
}

TEST_F(ContentsTest, CountsBytesOnTheirWayIn) {
  const auto contents = open(10);
  const auto writer = contents->begin(sha256_of("aaaaaa"), 6);
  ASSERT_TRUE(writer);
  EXPECT_EQ(contents->begin(sha256_of("bbbbbb"), 6).error().code, Code::kResourceExhausted);
}

TEST_F(ContentsTest, TheSamePutTwiceAtOnceIsThereOnce) {
  const auto contents = open(10);
  const auto first = contents->begin(sha256_of("aaaa"), 4);
  const auto second = contents->begin(sha256_of("aaaa"), 4);
  ASSERT_TRUE((*first)->add(bytes_of("aaaa")));
  ASSERT_TRUE((*second)->add(bytes_of("aaaa")));
  const auto one = (*first)->finish(), other = (*second)->finish();
  EXPECT_EQ(*one, *other);
  EXPECT_EQ(contents->bytes(), 4U);
  EXPECT_EQ(read_file((*other)->file), "aaaa");
}

TEST_F(ContentsTest, AnotherProcessFindsThemInTheirOrder) {
  {
    const auto contents = open(8);
    ASSERT_TRUE(put(*contents, "aaaa"));
    ASSERT_TRUE(put(*contents, "bbbb"));
    const auto times = [&](const std::string& text, int seconds) {
      fs::last_write_time(contents->find(sha256_of(text))->file,
                          fs::file_time_type::clock::now() + std::chrono::seconds(seconds));
    };
    times("aaaa", 2);
    times("bbbb", 1);
  }
  const auto contents = open(8);
  EXPECT_EQ(contents->bytes(), 8U);
  ASSERT_TRUE(put(*contents, "cccc"));
  EXPECT_EQ(contents->find(sha256_of("bbbb")), nullptr);
  EXPECT_NE(contents->find(sha256_of("aaaa")), nullptr);
}

TEST_F(ContentsTest, WhatChangedOnDiskMeanwhileIsNotFound) {
  fs::path file;
  {
    const auto contents = open();
    file = (*put(*contents, "abc"))->file;
  }
  std::ofstream(file, std::ios::binary) << "abd";
  const auto contents = open();
  EXPECT_EQ(contents->find(sha256_of("abc")), nullptr);
  EXPECT_FALSE(fs::exists(file));
  EXPECT_EQ(contents->bytes(), 0U);
}

TEST_F(ContentsTest, WhatAProcessLeftHalfWrittenIsRemoved) {
  {
    const auto contents = open();
  }
  std::ofstream(folder_.path() / "incoming/7") << "half";
  fs::create_directories(folder_.path() / "stages/3/deep");
  const auto contents = open();
  EXPECT_EQ(files_in("incoming"), 0U);
  EXPECT_EQ(files_in("stages"), 0U);
}

TEST_F(ContentsTest, ASmallerBoundRemovesAtOnce) {
  {
    const auto contents = open();
    ASSERT_TRUE(put(*contents, "aaaa"));
    ASSERT_TRUE(put(*contents, "bbbb"));
  }
  EXPECT_EQ(open(5)->count(), 1U);
}

TEST_F(ContentsTest, AFolderHasOneWorker) {
  const auto contents = open();
  const auto second = Contents::open(folder_.path(), 10);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kAlreadyExists);
}

TEST_F(ContentsTest, LaysFilesOutForAsLongAsTheFolderIsHeld) {
  const auto contents = open(8);
  fs::path place;
  {
    const auto folder = contents->lay_out(
        {{"model.onnx", *put(*contents, "aaaa")}, {"deep/data.bin", *put(*contents, "bbbb")}});
    ASSERT_TRUE(folder) << folder.error().message();
    place = **folder;
    EXPECT_EQ(read_file(place / "deep/data.bin"), "bbbb");
    EXPECT_FALSE(put(*contents, "cccc"));
  }
  EXPECT_FALSE(fs::exists(place));
  EXPECT_TRUE(put(*contents, "cccc"));
}

TEST_F(ContentsTest, AFolderThatWasRemovedIsMadeAgain) {
  const auto contents = open();
  ASSERT_TRUE(put(*contents, "abc"));
  fs::remove_all(folder_.path());
  EXPECT_EQ(contents->find(sha256_of("abc")), nullptr);
  EXPECT_EQ(contents->bytes(), 0U);
  const auto again = put(*contents, "abc");
  ASSERT_TRUE(again) << again.error().message();
  fs::remove_all(folder_.path() / "stages");
  const auto laid = contents->lay_out({{"model.onnx", *again}});
  ASSERT_TRUE(laid) << laid.error().message();
  EXPECT_EQ(read_file(**laid / "model.onnx"), "abc");
  EXPECT_FALSE(Contents::open(folder_.path(), 100));  // It has it still.
}

TEST_F(ContentsTest, AFolderThatWasRemovedAndIsAnothersNowIsLeftToIt) {
  const auto contents = open();
  fs::remove_all(folder_.path());
  const auto other = open();
  const auto refused = put(*contents, "abc");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_THAT(refused.error().message(), HasSubstr("was removed, and another worker has it now"));
}

TEST_F(ContentsTest, LaysNothingOutElsewhere) {
  const auto contents = open();
  const auto content = *put(*contents, "abc");
  for (const std::string path : {"../x", "/tmp/x", "a/../../x", "", "a/"}) {
    EXPECT_FALSE(contents->lay_out({{path, content}})) << path;
  }
  EXPECT_EQ(contents->lay_out({{"x", content}, {"x", content}}).error().code,
            Code::kInvalidArgument);
  EXPECT_EQ(files_in("stages"), 0U);
}

}  // namespace
}  // namespace penstock::host
