// Contents: files by what is in them, kept on disk for those who bring the same again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "penstock/base/result.h"

namespace penstock::host {

/// A file of the folder. It is not taken away while this is held.
struct Content {
  std::filesystem::path file;
  std::uint64_t bytes = 0;
};
using HeldContent = std::shared_ptr<const Content>;

/// A folder of files named by their SHA-256, bounded in bytes: where there is no room, the ones
/// that nobody holds go, the one used last longest ago first. A file is written beside and moved to
/// its place once it is whole and on disk, so that a crash leaves nothing half there; what an
/// earlier process left is read once, before it is used, and has to have its hash still. Where the
/// folder is removed meanwhile, it is made again when it is written to next.
/// \threads  all functions may be called from any thread. They block while they read and write.
class Contents {
 public:
  /// Takes the folder for this process, and removes what was left half written. Empty: a folder of
  /// the user's cache ($XDG_CACHE_HOME, else ~/.cache) that no other process has.
  /// \error kAlreadyExists  another process has the folder. kPermissionDenied  it cannot be made.
  static Result<std::shared_ptr<Contents>> open(std::filesystem::path folder,
                                                std::uint64_t most_bytes);
  ~Contents();
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  /// Null: it is not there, any more, or what is there has another hash (and is removed).
  HeldContent find(const std::string& sha256);

  /// One content on its way in. Without finish() nothing is left of it.
  class Writer {
   public:
    Writer(const Writer&) = delete;
    Writer& operator=(const Writer&) = delete;
    ~Writer();
    /// \error kInvalidArgument  more bytes than begin() was told. kResourceExhausted  disk full.
    Status add(std::span<const std::byte> bytes);
    /// Call once. \error kInvalidArgument  fewer bytes; kDataLoss  another hash;
    /// kResourceExhausted  disk full.
    Result<HeldContent> finish();

   private:
    friend class Contents;
    struct State;
    explicit Writer(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
  };
  /// \error kInvalidArgument  no SHA-256. kResourceExhausted  there is no room, and none can be
  /// made. kPermissionDenied  no file can be made. kFailedPrecondition  the folder was removed and
  /// is another worker's now.
  Result<std::unique_ptr<Writer>> begin(const std::string& sha256, std::uint64_t bytes);

  /// A folder with these contents at these relative paths, until the last reference is gone.
  /// \error kInvalidArgument  a path leads outside, or two are one. kPermissionDenied,
  /// kFailedPrecondition  as begin()
  Result<std::shared_ptr<const std::filesystem::path>> lay_out(
      const std::vector<std::pair<std::string, HeldContent>>& files);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  [[nodiscard]] std::uint64_t bytes() const;  ///< Of all files, those on their way in too.
  [[nodiscard]] std::size_t count() const;

 private:
  struct Entry {
    HeldContent content;  ///< Held by others while its use count is over 1.
    bool checked = false;
    std::uint64_t used = 0;  ///< When: a count that grows.
  };

  Contents(std::filesystem::path folder, int lock, std::uint64_t most_bytes)
      : folder_(std::move(folder)), most_bytes_(most_bytes), lock_(lock) {}
  void read_folder();
  Status keep_folder();
  bool make_room(std::uint64_t bytes);
  Result<HeldContent> put(const std::filesystem::path& written, const std::string& sha256,
                          std::uint64_t bytes);
  void give_back(std::uint64_t bytes);
  [[nodiscard]] std::filesystem::path file_of(const std::string& sha256) const;

  const std::filesystem::path folder_;
  const std::uint64_t most_bytes_;
  std::weak_ptr<Contents> self_;

  mutable std::mutex mutex_;  // Guards all below.
  int lock_;
  std::map<std::string, Entry> entries_;
  std::uint64_t bytes_ = 0;
  std::uint64_t uses_ = 0;
  std::uint64_t names_ = 0;  // Of temporary files and folders.
};

/// \error kInvalidArgument  expected 64 lower-case hexadecimal digits.
Status check_sha256(const std::string& text);

/// \error kInvalidArgument  the path is absolute, empty, or leads out of its folder.
Status check_relative(const std::string& path);

}  // namespace penstock::host
