// Files named by SHA-256 in a locked folder, written in pieces, evicted by last use, hard-linked.
#include "penstock/host/contents.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "penstock/base/files.h"
#include "penstock/base/folder.h"
#include "penstock/base/hash.h"
#include "penstock/base/hexadecimal.h"
#include "penstock/plan/paths.h"

namespace penstock::host {
namespace {

namespace fs = std::filesystem;

constexpr int kMostFolders = 64;  // Workers of one user on one machine.
constexpr ::mode_t kPrivate = 0600;

/// Of the folder: what is whole, what is on its way in, and what stages read.
constexpr const char* kWhole = "contents";
constexpr const char* kIncoming = "incoming";
constexpr const char* kLaidOut = "stages";

/// The descriptor that holds the folder's lock; -1: another process has it.
Result<int> lock(const fs::path& folder) {
  const fs::path file = folder / "lock";
  const int made = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, kPrivate);
  if (made < 0) {
    return make_error(Code::kPermissionDenied, "folder '", folder.string(),
                      "': cannot be written to: ", std::strerror(errno));
  }
  if (::flock(made, LOCK_EX | LOCK_NB) == 0) return made;
  ::close(made);
  return -1;
}

Status make_private_folder(const fs::path& folder) {
  PENSTOCK_CHECK_OK(make_folder(folder));
  if (::chmod(folder.c_str(), 0700) == 0) return {};
  return make_error(Code::kPermissionDenied, "folder '", folder.string(),
                    "': is another user's: ", std::strerror(errno));
}

fs::path cache_of_user() {
  if (const char* named = std::getenv("XDG_CACHE_HOME"); named != nullptr && *named == '/') {
    return fs::path(named) / "penstock";
  }
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return fs::path(home) / ".cache/penstock";
  return fs::temp_directory_path() / concat("penstock-cache-", ::geteuid());
}

struct Taken {
  fs::path folder;
  int lock = -1;
};

Result<Taken> take(const fs::path& folder) {
  PENSTOCK_CHECK_OK(make_private_folder(folder));
  PENSTOCK_TRY(const int descriptor, lock(folder));
  return Taken{folder, descriptor};
}

Result<Taken> take_any() {
  for (int i = 0; i < kMostFolders; ++i) {
    PENSTOCK_TRY(auto taken, take(cache_of_user() / concat("worker-", i)));
    if (taken.lock >= 0) return taken;
  }
  return make_error(Code::kAlreadyExists, "folder '", cache_of_user().string(), "': ", kMostFolders,
                    " workers have one in it; name another one (--cache)");
}

void remove_all_in(const fs::path& folder) {
  std::error_code ignored;
  remove_tree(folder);
  fs::create_directory(folder, ignored);
}

Error disk_error(int code) {
  const bool full = code == ENOSPC || code == EDQUOT;
  return make_error(full ? Code::kResourceExhausted : Code::kFailedPrecondition,
                    "the content cannot be kept: ", std::strerror(code),
                    full ? "; is the disk full?" : "");
}

Status make_folders_in(const fs::path& folder) {
  for (const char* name : {kWhole, kIncoming, kLaidOut}) {
    PENSTOCK_CHECK_OK(make_private_folder(folder / name));
  }
  return {};
}

}  // namespace

Status check_sha256(const std::string& text) {
  if (is_sha256(text)) return {};
  return invalid_argument("expected a SHA-256 of ", kSha256Digits,
                          " lower-case hexadecimal digits, found '", text.substr(0, kSha256Digits),
                          "'");
}

Status check_relative(const std::string& path) {
  const auto problem = plan::path_problem(path);
  if (problem.empty()) return {};
  return invalid_argument("path '", path.substr(0, 128), "' ", problem);
}

// ----------------------------------------------------------------------------------------- folder

Result<std::shared_ptr<Contents>> Contents::open(fs::path folder, std::uint64_t most_bytes) {
  PENSTOCK_TRY(const auto taken, folder.empty() ? take_any() : take(folder));
  if (taken.lock < 0) {
    return make_error(Code::kAlreadyExists, "folder '", folder.string(),
                      "': another worker has it; name another one (--cache)");
  }
  const std::shared_ptr<Contents> contents(new Contents(taken.folder, taken.lock, most_bytes));
  contents->self_ = contents;
  PENSTOCK_CHECK_OK(make_folders_in(taken.folder));
  contents->read_folder();
  return contents;
}

/// With the mutex held. Who removes the folder removes its lock, which holds nothing then.
Status Contents::keep_folder() {
  struct stat about{};
  if (::fstat(lock_, &about) == 0 && about.st_nlink == 0) {
    PENSTOCK_TRY(const auto taken, take(folder_));
    if (taken.lock < 0) {
      return make_error(Code::kFailedPrecondition, "folder '", folder_.string(),
                        "': was removed, and another worker has it now; start this one again");
    }
    ::close(std::exchange(lock_, taken.lock));
  }
  return make_folders_in(folder_);
}

Contents::~Contents() {
  if (lock_ >= 0) ::close(lock_);
}

/// In the order in which they were used last, which their times tell.
void Contents::read_folder() {
  remove_all_in(folder_ / kIncoming);
  remove_all_in(folder_ / kLaidOut);
  std::vector<fs::directory_entry> files;
  std::error_code error;
  for (const auto& name : names_in(folder_ / kWhole, error)) {
    std::error_code ignored;
    const fs::directory_entry entry(folder_ / kWhole / name, ignored);
    const bool is_one =
        entry.is_regular_file(ignored) && !entry.is_symlink(ignored) && is_sha256(name);
    if (is_one) files.push_back(entry);
  }
  std::ranges::sort(files, {}, [](const fs::directory_entry& entry) {
    std::error_code ignored;
    return entry.last_write_time(ignored);
  });
  const std::scoped_lock guard(mutex_);
  for (const auto& entry : files) {
    std::error_code ignored;
    const std::uint64_t size = entry.file_size(ignored);
    bytes_ += size;
    entries_[entry.path().filename().string()] = {
        std::make_shared<Content>(Content{entry.path(), size}), false, ++uses_};
  }
  make_room(0);
}

fs::path Contents::file_of(const std::string& sha256) const {
  return folder_ / kWhole / sha256;
}

std::uint64_t Contents::bytes() const {
  const std::scoped_lock guard(mutex_);
  return bytes_;
}

std::size_t Contents::count() const {
  const std::scoped_lock guard(mutex_);
  return entries_.size();
}

/// With the lock held: removes what nobody holds until so many bytes fit.
bool Contents::make_room(std::uint64_t bytes) {
  while (bytes_ > most_bytes_ || bytes > most_bytes_ - bytes_) {
    auto oldest = entries_.end();
    for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
      if (entry->second.content.use_count() > 1) continue;
      if (oldest == entries_.end() || entry->second.used < oldest->second.used) oldest = entry;
    }
    if (oldest == entries_.end()) return false;
    std::error_code ignored;
    fs::remove(oldest->second.content->file, ignored);
    bytes_ -= oldest->second.content->bytes;
    entries_.erase(oldest);
  }
  return true;
}

HeldContent Contents::find(const std::string& sha256) {
  HeldContent content;
  {
    const std::scoped_lock guard(mutex_);
    const auto found = entries_.find(sha256);
    if (found == entries_.end()) return nullptr;
    found->second.used = ++uses_;
    content = found->second.content;
    // The order is kept for the next process; where that fails it is another one.
    const int touched = ::utimensat(AT_FDCWD, content->file.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
    if (touched != 0 && errno == ENOENT) {  // Somebody has removed it.
      bytes_ -= content->bytes;
      entries_.erase(found);
      return nullptr;
    }
    if (found->second.checked) return content;
  }
  const auto hash = sha256_of_file(content->file);
  const std::scoped_lock guard(mutex_);
  const auto found = entries_.find(sha256);
  if (hash && *hash == sha256) {
    if (found != entries_.end()) found->second.checked = true;
    return content;
  }
  if (found == entries_.end() || found->second.content != content) return nullptr;
  std::error_code ignored;
  fs::remove(content->file, ignored);
  bytes_ -= content->bytes;
  entries_.erase(found);
  return nullptr;
}

Result<HeldContent> Contents::put(const fs::path& written, const std::string& sha256,
                                  std::uint64_t bytes) {
  // Who makes room meanwhile would remove the file with the entry that was there before.
  const std::scoped_lock guard(mutex_);
  if (::rename(written.c_str(), file_of(sha256).c_str()) != 0) return disk_error(errno);
  auto& entry = entries_[sha256];
  if (entry.content != nullptr) {  // Somebody else was faster: one of the two is counted.
    bytes_ -= bytes;
  } else {
    entry.content = std::make_shared<Content>(Content{file_of(sha256), bytes});
  }
  entry.checked = true;
  entry.used = ++uses_;
  return entry.content;
}

void Contents::give_back(std::uint64_t bytes) {
  const std::scoped_lock guard(mutex_);
  bytes_ -= bytes;
}

// ----------------------------------------------------------------------------------------- writing

struct Contents::Writer::State {
  std::shared_ptr<Contents> contents;
  std::string sha256;
  std::uint64_t bytes = 0, written = 0;
  fs::path file;
  int descriptor = -1;
  Sha256 hash;
  bool done = false;
};

Contents::Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}

Contents::Writer::~Writer() {
  if (state_->descriptor >= 0) ::close(state_->descriptor);
  if (state_->done) return;
  std::error_code ignored;
  fs::remove(state_->file, ignored);
  state_->contents->give_back(state_->bytes);
}

Result<std::unique_ptr<Contents::Writer>> Contents::begin(const std::string& sha256,
                                                          std::uint64_t bytes) {
  PENSTOCK_CHECK_OK(check_sha256(sha256));
  auto state = std::make_unique<Writer::State>();
  {
    const std::scoped_lock guard(mutex_);
    PENSTOCK_CHECK_OK(keep_folder());
    if (!make_room(bytes)) {
      return make_error(Code::kResourceExhausted, "a content of ", bytes,
                        " bytes has no room: all contents may take ", most_bytes_,
                        " bytes, and what is there is in use");
    }
    bytes_ += bytes;
    state->file = folder_ / kIncoming / std::to_string(++names_);
  }
  state->contents = self_.lock();
  state->sha256 = sha256;
  state->bytes = bytes;
  std::unique_ptr<Writer> writer(new Writer(std::move(state)));
  auto& made = *writer->state_;
  made.descriptor =
      ::open(made.file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kPrivate);
  if (made.descriptor >= 0) return writer;
  return make_error(Code::kPermissionDenied, "folder '", folder_.string(),
                    "': no file can be made: ", std::strerror(errno));
}

Status Contents::Writer::add(std::span<const std::byte> bytes) {
  if (bytes.size() > state_->bytes - state_->written) {
    return invalid_argument("expected a content of ", state_->bytes, " bytes, found more");
  }
  state_->hash.update(bytes);
  state_->written += bytes.size();
  while (!bytes.empty()) {
    const auto n = ::write(state_->descriptor, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return disk_error(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
  return {};
}

Result<HeldContent> Contents::Writer::finish() {
  if (state_->written != state_->bytes) {
    return invalid_argument("expected a content of ", state_->bytes, " bytes, found ",
                            state_->written);
  }
  const std::string hash = state_->hash.finish();
  if (hash != state_->sha256) {
    return make_error(Code::kDataLoss, "expected a content of SHA-256 ", state_->sha256, ", found ",
                      hash);
  }
  if (::fsync(state_->descriptor) != 0) return disk_error(errno);
  PENSTOCK_TRY(auto content, state_->contents->put(state_->file, state_->sha256, state_->bytes));
  state_->done = true;
  return content;
}

// ------------------------------------------------------------------------------------- laying out

Result<std::shared_ptr<const fs::path>> Contents::lay_out(
    const std::vector<std::pair<std::string, HeldContent>>& files) {
  fs::path folder;
  {
    const std::scoped_lock guard(mutex_);
    PENSTOCK_CHECK_OK(keep_folder());
    folder = folder_ / kLaidOut / std::to_string(++names_);
  }
  PENSTOCK_CHECK_OK(make_private_folder(folder));
  const std::shared_ptr<const fs::path> made(
      new fs::path(folder), [contents = self_.lock(), held = files](const fs::path* path) {
        remove_tree(*path);
        delete path;  // NOLINT(*-owning-memory)
      });
  for (const auto& [path, content] : files) {
    PENSTOCK_CHECK_OK(check_relative(path));
    const fs::path place = folder / path;
    PENSTOCK_CHECK_OK(make_folder(place.parent_path()));
    std::error_code error;
    fs::create_hard_link(content->file, place, error);  // Engines refuse links that lead outside.
    if (error == std::errc::file_exists) {
      return invalid_argument("path '", path, "': expected it once, found it twice");
    }
    if (error) {
      return make_error(Code::kPermissionDenied, "folder '", folder.string(),
                        "': no link can be made: ", error.message());
    }
  }
  return made;
}

}  // namespace penstock::host
