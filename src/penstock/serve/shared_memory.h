// SharedMemory: the regions of POSIX shared memory that clients of this machine registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/serve/request.h"

namespace penstock::serve {

struct RegionInfo {
  std::string name;
  std::string key;           ///< As for shm_open(): "/name".
  std::uint64_t offset = 0;  ///< Of the region in the object that the key names.
  std::uint64_t byte_size = 0;
};

/// Bytes of a region. They stay mapped for as long as `owner` is held, also where the region is
/// unregistered meanwhile.
struct RegionBytes {
  std::span<std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// \threads  all functions may be called from any thread.
class SharedMemory {
 public:
  SharedMemory(std::size_t most_regions, std::uint64_t most_bytes)
      : most_regions_(most_regions), most_bytes_(most_bytes) {}

  /// \error kAlreadyExists    the name is taken.
  /// \error kInvalidArgument  no name; a key that is no name of an object; nothing of that key; it
  ///                          does not lie within the object.
  /// \error kResourceExhausted  a limit.
  Status add(const RegionInfo& region);
  /// Of all where the name is empty. Unknown names are no error.
  void remove(const std::string& name);
  /// Of all where the name is empty. \error kNotFound
  [[nodiscard]] Result<std::vector<RegionInfo>> list(const std::string& name) const;

  /// \error kInvalidArgument  no such region, the place is outside of it, or its object has been
  ///                          shrunk and does not hold the region any more.
  [[nodiscard]] Result<RegionBytes> at(const RegionPlace& place) const;

 private:
  class Object;
  struct Region {
    RegionInfo info;
    std::shared_ptr<const Object> object;
    std::byte* begin = nullptr;
  };
  [[nodiscard]] Result<Region> find(const std::string& name) const;

  const std::size_t most_regions_;
  const std::uint64_t most_bytes_;
  mutable std::mutex mutex_;  // Guards all below.
  std::map<std::string, Region> regions_;
  std::uint64_t bytes_ = 0;
};

}  // namespace penstock::serve
