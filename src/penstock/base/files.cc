#include "penstock/base/files.h"

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <system_error>

#include <unistd.h>

namespace penstock {
namespace {

namespace fs = std::filesystem;

/// The temporary folders that are there, and the process that made each. A call that hangs may keep
/// one for ever: it is removed at the process's exit.
struct Kept {
  std::mutex mutex;
  const ::pid_t first = ::getpid();
  std::map<fs::path, ::pid_t> folders;
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
  for (const auto& [folder, owner] : kept().folders) {
    std::error_code ignored;
    if (owner == ::getpid()) fs::remove_all(folder, ignored);  // Not by a forked child.
  }
}

void keep(const fs::path& folder) {
  [[maybe_unused]] static const int kRegistered = std::atexit(remove_kept);
  const std::scoped_lock lock(kept().mutex);
  kept().folders[folder] = ::getpid();
}

void remove_folder(const fs::path& folder) {
  bool ours = false;
  {
    const std::scoped_lock lock(kept().mutex);
    const auto found = kept().folders.find(folder);
    ours = found != kept().folders.end() && found->second == ::getpid();  // Not a parent's.
    if (ours) kept().folders.erase(found);
  }
  std::error_code ignored;
  if (ours) fs::remove_all(folder, ignored);
}

}  // namespace

Status make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (!error) return {};
  return make_error(Code::kPermissionDenied, "folder '", folder.string(),
                    "': cannot be made: ", error.message());
}

Result<std::shared_ptr<const std::filesystem::path>> make_temporary_folder() {
  std::error_code error;
  std::string pattern = (std::filesystem::temp_directory_path(error) / "penstock-XXXXXX").string();
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    return make_error(Code::kPermissionDenied, "folder '", pattern,
                      "': cannot be made; set TMPDIR to a folder that can be written");
  }
  keep(pattern);
  return std::shared_ptr<const fs::path>(new fs::path(pattern), [](const fs::path* folder) {
    remove_folder(*folder);
    delete folder;
  });
}

}  // namespace penstock
