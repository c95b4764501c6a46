// Temporary folders are locked while their process lives; those of killed ones are removed later.
#include "penstock/base/files.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "penstock/base/folder.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPattern = "penstock-XXXXXX";
/// Ends the name of a folder that is locked (flock) as long as its process lives. It is locked
/// before it has the name: who can lock it then knows that the process is gone.
constexpr std::string_view kLocked = ".locked";

/// Who made a temporary folder, and the descriptor that holds its lock, or -1.
struct Hold {
  ::pid_t owner;
  int lock;
};

/// The temporary folders that are there. A call that hangs may keep one for ever: it is removed at
/// the process's exit.
struct Kept {
  std::mutex mutex;
  const ::pid_t first = ::getpid();
  std::map<fs::path, Hold> folders;
  ::pid_t swept = 0;  ///< The last process that has looked for what killed ones left.
};

Kept& kept() {
  static auto* folders = new Kept;  // Never destroyed: references may end after the exit's calls.
  return *folders;
}

void remove_kept() {
  std::unique_lock lock(kept().mutex, std::defer_lock);
  if (::getpid() == kept().first) {
    lock.lock();
  } else if (!lock.try_lock()) {
    return;  // Held for ever by a thread that the fork has left behind.
  }
  for (const auto& [folder, hold] : kept().folders) {
    if (hold.owner == ::getpid()) remove_tree(folder);  // Not by a forked child.
  }
}

void keep(const fs::path& folder, int lock) {
  [[maybe_unused]] static const int kRegistered = std::atexit(remove_kept);
  const std::scoped_lock guard(kept().mutex);
  kept().folders[folder] = {::getpid(), lock};
}

void unlock(int lock) {
  if (lock >= 0) ::close(lock);
}

void remove_folder(const fs::path& folder) {
  Hold hold{0, -1};
  {
    const std::scoped_lock guard(kept().mutex);
    const auto found = kept().folders.find(folder);
    if (found != kept().folders.end()) {
      hold = found->second;
      kept().folders.erase(found);
    }
  }
  if (hold.owner == ::getpid()) remove_tree(folder);  // Not a parent's.
  unlock(hold.lock);
}

/// The descriptor that holds the lock; -1: another process has it, or there is none to be had.
int lock_folder(const fs::path& folder) {
  // Programs that are started do not inherit it.
  const int lock = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (lock >= 0 && ::flock(lock, LOCK_EX | LOCK_NB) == 0) return lock;
  unlock(lock);
  return -1;
}

/// Whether what is locked is our user's, and still what has the name.
bool is_ours(const fs::path& folder, int lock) {
  struct stat locked{}, named{};
  return ::fstat(lock, &locked) == 0 && ::lstat(folder.c_str(), &named) == 0 &&
         locked.st_dev == named.st_dev && locked.st_ino == named.st_ino &&
         locked.st_uid == ::geteuid();
}

bool is_locked_name(std::string_view name) {
  return name.size() == kPattern.size() + kLocked.size() && name.ends_with(kLocked) &&
         name.starts_with(kPattern.substr(0, kPattern.find('X')));
}

/// Removes what processes have left that were killed.
void sweep(const fs::path& temporary) {
  std::error_code ignored;
  for (const auto& name : names_in(temporary, ignored)) {
    if (!is_locked_name(name)) continue;
    const auto folder = temporary / name;
    const int lock = lock_folder(folder);
    if (lock >= 0 && is_ours(folder, lock)) remove_tree(folder);
    unlock(lock);
  }
}

/// Other threads do not wait for it.
void sweep_once(const fs::path& temporary) {
  ::pid_t last = 0;
  {
    const std::scoped_lock guard(kept().mutex);
    last = std::exchange(kept().swept, ::getpid());
  }
  if (last != ::getpid()) sweep(temporary);
}

/// Locks and renames it; what cannot be locked keeps its name, and is never swept.
void hold(fs::path& folder) {
  const int lock = lock_folder(folder);
  try {
    if (lock >= 0) {
      fs::path locked = folder;
      locked += kLocked;
      std::error_code error;
      fs::rename(folder, locked, error);
      if (!error) folder = std::move(locked);
    }
    keep(folder, lock);
  } catch (const std::bad_alloc&) {
    unlock(lock);
    throw;
  }
}

/// hold() of the folder that was made. Nothing stays of it, which is empty still, where memory is
/// refused.
void hold_made(const std::string& made, fs::path& folder) {
  try {
    folder = made;
    hold(folder);
  } catch (const std::bad_alloc&) {
    ::rmdir(made.c_str());
    ::rmdir(folder.c_str());
    throw;
  }
}

}  // namespace

Status make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return {};
  return make_error(Code::kPermissionDenied, "folder '", folder.string(),
                    "': cannot be made: ", error.message());
}

Code code_of_errno(int number) {
  switch (number) {
    case ENOENT:
    case ENOTDIR:
      return Code::kNotFound;
    case ENOSPC:
    case EDQUOT:
      return Code::kResourceExhausted;
    default:
      return Code::kPermissionDenied;
  }
}

Status write_whole_file(const std::filesystem::path& file, std::string_view text) {
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  const bool opened = out.is_open();
  out << text;
  out.close();
  if (out) return {};
  const int reason = errno;
  if (opened) remove_part(file);
  return make_error(code_of_errno(reason), "cannot be written",
                    reason == 0 ? "" : ": " + std::generic_category().message(reason))
      .within({Where::kFile, file.string()});
}

void remove_part(const std::filesystem::path& file) {
  std::error_code ignored;
  if (fs::is_regular_file(fs::symlink_status(file, ignored))) fs::remove(file, ignored);
}

bool would_lose(const std::filesystem::path& file, std::string_view begin) {
  std::error_code unknown;
  if (begin.empty() || !std::filesystem::is_regular_file(file, unknown)) return false;
  std::ifstream in(file, std::ios::binary);
  char c = 0;
  while (in.get(c) && (c == ' ' || c == '\t' || c == '\r' || c == '\n')) {
  }
  if (!in) return std::filesystem::file_size(file, unknown) != 0;
  for (const char expected : begin) {
    if (!in || std::tolower(static_cast<unsigned char>(c)) != expected) return true;
    in.get(c);
  }
  return false;
}

Result<std::shared_ptr<const std::filesystem::path>> make_temporary_folder() {
  std::error_code error;
  const auto temporary = fs::temp_directory_path(error);
  if (!error) sweep_once(temporary);
  auto made = (temporary / kPattern).string();
  auto folder = std::make_unique<fs::path>();
  if (error || ::mkdtemp(made.data()) == nullptr) {
    if (!error) error = std::error_code(errno, std::generic_category());
    const char* named = std::getenv("TMPDIR");
    return make_error(Code::kPermissionDenied, "folder '", named != nullptr ? named : "/tmp",
                      "': no temporary folder can be made in it: ", error.message(),
                      "; set TMPDIR to a folder that can be written");
  }
  hold_made(made, *folder);
  return std::shared_ptr<const fs::path>(folder.release(), [](const fs::path* held) {
    remove_folder(*held);
    delete held;
  });
}

TemporarySpace temporary_space() {
  constexpr std::uint32_t kTmpfs = 0x01021994, kRamfs = 0x858458f6;
  std::error_code error;
  const auto folder = fs::temp_directory_path(error);
  struct ::statfs found = {};
  if (error || ::statfs(folder.c_str(), &found) != 0) return {};
  const auto kind = static_cast<std::uint32_t>(found.f_type);
  return {static_cast<std::uint64_t>(found.f_bavail) * static_cast<std::uint64_t>(found.f_bsize),
          kind == kTmpfs || kind == kRamfs};
}

}  // namespace penstock
