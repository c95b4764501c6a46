// Temporary folders of processes that live, let go of them or are killed.
#include "penstock/base/files.h"

#include <array>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// A process that makes a temporary folder with a file in it, and then waits to be killed.
class Maker {
 public:
  Maker() {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe(pipe.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) make(pipe[1]);
    ::close(pipe[1]);
    std::string text(4096, '\0');
    const auto length = ::read(pipe[0], text.data(), text.size());
    folder_ = text.substr(0, length > 0 ? static_cast<std::size_t>(length) : 0);
    ::close(pipe[0]);
  }
  ~Maker() { kill(); }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  void kill() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }

  [[nodiscard]] const fs::path& folder() const { return folder_; }

 private:
  [[noreturn]] static void make(int out) {
    const auto folder = make_temporary_folder();
    if (!folder) std::_Exit(1);
    std::ofstream(**folder / "weights") << "many";
    const auto& text = (*folder)->native();
    if (::write(out, text.data(), text.size()) < 0) std::_Exit(1);
    for (;;) ::pause();
  }

  ::pid_t pid_ = 0;
  fs::path folder_;
};

class TemporaryFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    auto name = (fs::temp_directory_path() / "files-test-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    temporary_ = name;
    if (const char* before = std::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", name.c_str(), 1);
  }
  void TearDown() override {
    before_.empty() ? ::unsetenv("TMPDIR") : ::setenv("TMPDIR", before_.c_str(), 1);
    fs::remove_all(temporary_);
  }

  /// With something in it.
  [[nodiscard]] fs::path folder(const std::string& name) const {
    fs::create_directory(temporary_ / name);
    std::ofstream(temporary_ / name / "file") << "text";
    return temporary_ / name;
  }

  fs::path temporary_;
  std::string before_;
};

TEST_F(TemporaryFolderTest, OfAKilledProcessIsRemovedByTheNextOneAndOfALiveOneIsNot) {
  Maker killed;
  const Maker live;
  killed.kill();
  ASSERT_TRUE(fs::exists(killed.folder() / "weights"));
  const Maker next;
  EXPECT_FALSE(fs::exists(killed.folder()));
  EXPECT_TRUE(fs::exists(live.folder() / "weights"));
  EXPECT_TRUE(fs::exists(next.folder() / "weights"));
}

TEST_F(TemporaryFolderTest, GoesWithItsLastReference) {
  auto made = make_temporary_folder();
  ASSERT_TRUE(made) << made.error().message();
  auto copy = *made;
  *made = nullptr;
  EXPECT_TRUE(fs::exists(*copy));
  copy = nullptr;
  EXPECT_TRUE(fs::is_empty(temporary_));
}

TEST_F(TemporaryFolderTest, OfAKilledProcessIsTheOnlyThingThatIsRemoved) {
  const auto other = folder("of-somebody-else");
  const auto unlocked = folder("penstock-abcdef");
  const auto longer = folder("penstock-of-the-user.locked");
  fs::create_directory_symlink(other, temporary_ / "penstock-ghijkl.locked");
  std::ofstream(temporary_ / "penstock-mnopqr.locked") << "a file";
  Maker killed;
  fs::create_directory_symlink(other, killed.folder() / "link");
  killed.kill();
  const Maker next;
  EXPECT_FALSE(fs::exists(killed.folder()));
  for (const auto& kept : {other, unlocked, longer}) EXPECT_TRUE(fs::exists(kept / "file")) << kept;
  EXPECT_TRUE(fs::is_symlink(temporary_ / "penstock-ghijkl.locked"));
  EXPECT_TRUE(fs::exists(temporary_ / "penstock-mnopqr.locked"));
}

TEST_F(TemporaryFolderTest, IsLockedByADescriptorThatNoProgramInherits) {
  const auto made = make_temporary_folder();
  ASSERT_TRUE(made) << made.error().message();
  int found = 0;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator("/proc/self/fd")) {
    if (fs::read_symlink(entry, error) != fs::canonical(**made)) continue;
    ++found;
    EXPECT_TRUE(::fcntl(std::stoi(entry.path().filename()), F_GETFD) & FD_CLOEXEC);
  }
  EXPECT_EQ(found, 1);
}

TEST_F(TemporaryFolderTest, HasSpaceOnADiskOrInMemory) {
  const auto here = temporary_space();
  ASSERT_TRUE(here.free_bytes);
  EXPECT_GT(*here.free_bytes, 0U);
  if (!fs::exists("/dev/shm")) GTEST_SKIP() << "no /dev/shm, which is in memory";
  ::setenv("TMPDIR", "/dev/shm", 1);
  EXPECT_TRUE(temporary_space().in_memory);
  ::setenv("TMPDIR", "/nowhere", 1);
  EXPECT_FALSE(temporary_space().free_bytes);
}

}  // namespace
}  // namespace penstock
