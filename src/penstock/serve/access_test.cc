// Rights by token, by certificate and by neither; token files that change or are malformed.
#include "penstock/serve/access.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "penstock/base/files.h"
#include "penstock/base/hash.h"

namespace penstock::serve {
namespace {

using testing::_;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class AccessTest : public testing::Test {
 protected:
  void write(const std::string& text) {
    std::ofstream(file_) << text;
    // A file system may keep times in coarse steps: the time moves by hand.
    std::filesystem::last_write_time(
        file_, std::filesystem::file_time_type::clock::now() + std::chrono::seconds(++writes_));
  }
  Result<Access> open(const std::string& text) {
    write(text);
    return Access::open({.tokens = file_, .say = [this](const std::string& text_said) {
                           said_.push_back(text_said);
                         }});
  }
  static Code code_of(const Result<std::string>& checked) {
    return checked ? Code{} : checked.error().code;
  }

  std::shared_ptr<const std::filesystem::path> folder_ = *make_temporary_folder();
  std::filesystem::path file_ = *folder_ / concat("tokens", getpid());
  std::vector<std::string> said_;
  int writes_ = 0;
};

std::string line(const std::string& name, const std::string& token, const std::string& rights) {
  return concat(name, " sha256:", sha256_of(token), " ", rights, "\n");
}

TEST_F(AccessTest, GivesEachTokenItsOwnRights) {
  const auto access = *open(line("a", "secret", "infer") + line("b", "other", "load,admin"));
  EXPECT_EQ(*access.check(Right::kInfer, {.token = "secret"}), "a");
  EXPECT_EQ(code_of(access.check(Right::kLoad, {.token = "secret"})), Code::kPermissionDenied);
  EXPECT_EQ(code_of(access.check(Right::kAdmin, {.token = "secret"})), Code::kPermissionDenied);
  EXPECT_EQ(*access.check(Right::kLoad, {.token = "other"}), "b");
  EXPECT_EQ(*access.check(Right::kAdmin, {.token = "other"}), "b");
  const auto denied = access.check(Right::kInfer, {.token = "other"});
  ASSERT_EQ(code_of(denied), Code::kPermissionDenied);
  EXPECT_EQ(denied.error().reason, "'b' may not use models: its rights are load,admin");
}

TEST_F(AccessTest, DoesNotKnowWhoShowsNothingOrSomethingElse) {
  const auto access = *open(line("a", "secret", "infer") + "edge certificate infer\n");
  for (const Credentials& wrong :
       {Credentials{}, Credentials{.token = "Secret"}, Credentials{.certificate_name = "a"},
        Credentials{.token = "edge"}, Credentials{.local = true},
        Credentials{.token = "x", .certificate_name = "edge"}}) {
    EXPECT_EQ(code_of(access.check(Right::kInfer, wrong)), Code::kUnauthenticated)
        << wrong.token << " " << wrong.certificate_name;
  }
  EXPECT_EQ(*access.check(Right::kInfer, {.certificate_name = "edge"}), "edge");
}

TEST_F(AccessTest, TheHashOfATokenIsNoToken) {
  const auto access = *open(line("a", "secret", "infer"));
  EXPECT_EQ(code_of(access.check(Right::kInfer, {.token = sha256_of("secret")})),
            Code::kUnauthenticated);
}

TEST_F(AccessTest, SharedMemoryIsForClientsOfThisMachine) {
  const auto access = *open(line("a", "secret", "infer"));
  EXPECT_TRUE(access.check(Right::kSharedMemory, {.token = "secret", .local = true}));
  EXPECT_EQ(code_of(access.check(Right::kSharedMemory, {.token = "secret"})),
            Code::kPermissionDenied);
  EXPECT_EQ(code_of(access.check(Right::kSharedMemory, {.local = true})), Code::kUnauthenticated);
}

TEST_F(AccessTest, WithoutAFileStrangersMayInferOnly) {
  const auto access = *Access::open({});
  EXPECT_TRUE(access.check(Right::kInfer, {}));
  for (const Right right : {Right::kLoad, Right::kAdmin, Right::kSharedMemory}) {
    EXPECT_EQ(code_of(access.check(right, {})), Code::kPermissionDenied);
    EXPECT_TRUE(access.check(right, {.local = true}));
  }
}

TEST_F(AccessTest, WithCertificatesAloneWhoeverHasOneMayDoEverything) {
  const auto access = *Access::open({.client_certificates = true});
  EXPECT_EQ(*access.check(Right::kLoad, {.certificate_name = "any"}), "any");
  EXPECT_EQ(code_of(access.check(Right::kInfer, {.local = true})), Code::kUnauthenticated);
}

TEST_F(AccessTest, ReadsAChangedFileAgain) {
  const auto access = *open(line("a", "secret", "infer"));
  EXPECT_TRUE(access.check(Right::kInfer, {.token = "secret"}));
  write(line("b", "another", "infer"));
  EXPECT_EQ(code_of(access.check(Right::kInfer, {.token = "secret"})), Code::kUnauthenticated);
  EXPECT_TRUE(access.check(Right::kInfer, {.token = "another"}));
  EXPECT_THAT(said_, ElementsAre(HasSubstr("read again")));
}

TEST_F(AccessTest, WarnsOfAFileThatNamesNobody) {
  const auto access = *open("# nobody yet\n");
  EXPECT_THAT(said_, ElementsAre(AllOf(HasSubstr("names nobody: every request"),
                                       HasSubstr("penstock token NAME >> " + file_.string()))));
  EXPECT_EQ(code_of(access.check(Right::kInfer, {.local = true})), Code::kUnauthenticated);
  write(line("a", "secret", "infer"));
  EXPECT_TRUE(access.check(Right::kInfer, {.token = "secret"}));
  EXPECT_THAT(said_, ElementsAre(_, HasSubstr("read again")));
  write("");
  EXPECT_FALSE(access.check(Right::kInfer, {.token = "secret"}));
  EXPECT_THAT(said_, ElementsAre(_, _, HasSubstr("read again"), HasSubstr("names nobody")));
}

TEST_F(AccessTest, KeepsWhatItReadWhereAChangedFileIsBad) {
  const auto access = *open(line("a", "secret", "infer"));
  write("nonsense\n");
  EXPECT_TRUE(access.check(Right::kInfer, {.token = "secret"}));
  std::filesystem::remove(file_);
  EXPECT_TRUE(access.check(Right::kInfer, {.token = "secret"}));
  EXPECT_THAT(said_, ElementsAre(HasSubstr(":1: expected 'NAME"), HasSubstr("cannot be read")));
}

TEST_F(AccessTest, NamesTheLineThatIsWrongAndRepeatsNoSecret) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"a", ":1: expected 'NAME sha256:HASH RIGHTS'"},
      {"# all well\n\na plain-token infer\n", ":3: the second word of 'a' is neither"},
      {"a sha256:abc infer\n", "64 hexadecimal digits"},
      {line("a", "x", "infer,read"), "expected rights"},
      {line("a", "x", "infer,"), "expected rights"},
      {line("a", "x", "infer") + line("a", "y", "infer"), ":2: the name 'a' stands"},
  };
  for (const auto& [text, sentence] : cases) {
    const auto access = open(text);
    ASSERT_FALSE(access) << text;
    EXPECT_EQ(access.error().code, Code::kInvalidArgument);
    EXPECT_THAT(access.error().message(), HasSubstr(sentence));
    EXPECT_THAT(access.error().message(), testing::Not(HasSubstr("plain-token")));
  }
  EXPECT_EQ(Access::open({.tokens = file_.string() + ".none"}).error().code, Code::kNotFound);
  const auto folder = Access::open({.tokens = file_.parent_path()});
  ASSERT_FALSE(folder);
  EXPECT_EQ(folder.error().code, Code::kInvalidArgument);
  EXPECT_NE(folder.error().message().find("found a folder"), std::string::npos);
}

TEST_F(AccessTest, ANewTokensLineLetsItIn) {
  const auto made = *make_token("edge-7", "infer,load");
  EXPECT_THAT(made.line, testing::Not(HasSubstr(made.token)));
  const auto access = *open(made.line + "\n");
  EXPECT_EQ(*access.check(Right::kLoad, {.token = made.token}), "edge-7");
  EXPECT_NE(made.token, make_token("edge-7", "infer,load")->token);
  EXPECT_FALSE(make_token("two words", "infer"));
  EXPECT_FALSE(make_token("", "infer"));
  EXPECT_FALSE(make_token("a#b", "infer"));
  EXPECT_FALSE(make_token("a", "everything"));
}

TEST(BearerToken, IsWhatFollowsTheScheme) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  EXPECT_EQ(bearer_token("bearer  abc "), "abc");
  EXPECT_EQ(bearer_token("Basic abc"), "");
  EXPECT_EQ(bearer_token("Bearer"), "");
  EXPECT_EQ(bearer_token(""), "");
}

TEST(Exposure, IsPlainTextThatOthersReach) {
  for (const char* own : {"127.0.0.1:8000", "localhost:1", "[::1]:8000", "::1", "127.9.9.9",
                          "unix:/tmp/socket", "::ffff:127.0.0.1"}) {
    EXPECT_TRUE(check_exposure(own, false, false)) << own;
  }
  for (const char* others : {"0.0.0.0:8000", "[::]:8000", "10.0.0.1:1", "host:1", ":8000", "",
                             "127.evil.example:80", "127.0.0.1.example:80", "::"}) {
    EXPECT_FALSE(check_exposure(others, false, false)) << others;
    EXPECT_TRUE(check_exposure(others, true, false));
    EXPECT_TRUE(check_exposure(others, false, true));
  }
}

}  // namespace
}  // namespace penstock::serve
