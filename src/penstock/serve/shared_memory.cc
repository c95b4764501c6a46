// Maps regions with shm_open() and mmap(), and checks that each place lies within its region.
#include "penstock/serve/shared_memory.h"

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace penstock::serve {
namespace {

std::string reason_of(int error) {
  return std::error_code(error, std::generic_category()).message();
}

Status check_names(const RegionInfo& region) {
  if (region.name.empty()) return invalid_argument("shared memory: expected a name for the region");
  const std::string_view key = region.key;
  const bool valid = key.size() > 1 && key.size() < 255 && key.front() == '/' &&
                     key.find('/', 1) == std::string_view::npos &&
                     key.find('\0') == std::string_view::npos && key != "/." && key != "/..";
  if (valid) return {};
  return invalid_argument("shared memory region '", region.name,
                          "': expected a key such as '/name', found '", key, "'");
}

/// \error kInvalidArgument  it does not lie within the object of `object_bytes`.
Status check_within(const RegionInfo& region, std::uint64_t object_bytes) {
  if (region.byte_size == 0) {
    return invalid_argument("shared memory region '", region.name, "': expected a size over 0");
  }
  if (region.offset <= object_bytes && region.byte_size <= object_bytes - region.offset) return {};
  return invalid_argument("shared memory region '", region.name, "': ", region.byte_size,
                          " bytes from ", region.offset, " do not lie within '", region.key,
                          "', which has ", object_bytes);
}

Error refused(const RegionInfo& region, const char* what) {
  return invalid_argument("shared memory region '", region.name, "': '", region.key, "' ", what,
                          ": ", reason_of(errno));
}

}  // namespace

/// An object of shared memory, open for as long as the region is mapped: it may change its size.
class SharedMemory::Object {
 public:
  explicit Object(int descriptor) : descriptor_(descriptor) {}
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  ~Object() {
    if (mapped_ != nullptr) ::munmap(mapped_, length_);
    if (descriptor_ >= 0) ::close(descriptor_);
  }

  /// \error kInvalidArgument  the region does not lie within it now.
  [[nodiscard]] Status check(const RegionInfo& region) const {
    struct stat object{};
    if (::fstat(descriptor_, &object) != 0) return refused(region, "cannot be looked at");
    return check_within(region, static_cast<std::uint64_t>(object.st_size));
  }
  /// \returns where the region begins.
  Result<std::byte*> map(const RegionInfo& region);

 private:
  const int descriptor_;
  void* mapped_ = nullptr;
  std::size_t length_ = 0;
};

Result<std::byte*> SharedMemory::Object::map(const RegionInfo& region) {
  if (descriptor_ < 0) return refused(region, "cannot be opened");
  PENSTOCK_CHECK_OK(check(region));
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::uint64_t before = region.offset % page;
  const std::size_t length = region.byte_size + before;
  void* begin = ::mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_,
                       static_cast<off_t>(region.offset - before));
  if (begin == MAP_FAILED) return refused(region, "cannot be mapped");
  mapped_ = begin;
  length_ = length;
  return static_cast<std::byte*>(begin) + before;
}

Status SharedMemory::add(const RegionInfo& region) {
  PENSTOCK_CHECK_OK(check_names(region));
  const auto object =
      std::make_shared<Object>(::shm_open(region.key.c_str(), O_RDWR | O_CLOEXEC, 0));
  PENSTOCK_TRY(std::byte* const begin, object->map(region));
  const std::scoped_lock lock(mutex_);
  if (regions_.contains(region.name)) {
    return make_error(Code::kAlreadyExists, "shared memory region '", region.name,
                      "' is registered already; unregister it first");
  }
  if (regions_.size() >= most_regions_ || region.byte_size > most_bytes_ - bytes_) {
    return make_error(Code::kResourceExhausted, "shared memory region '", region.name,
                      "': the server takes ", most_regions_, " regions of ", most_bytes_,
                      " bytes in all; unregister one");
  }
  bytes_ += region.byte_size;
  regions_.emplace(region.name, Region{region, object, begin});
  return {};
}

void SharedMemory::remove(const std::string& name) {
  const std::scoped_lock lock(mutex_);
  if (name.empty()) {
    regions_.clear();
    bytes_ = 0;
  } else if (const auto found = regions_.find(name); found != regions_.end()) {
    bytes_ -= found->second.info.byte_size;
    regions_.erase(found);
  }
}

Result<std::vector<RegionInfo>> SharedMemory::list(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  std::vector<RegionInfo> regions;
  for (const auto& [called, region] : regions_) {
    if (name.empty() || name == called) regions.push_back(region.info);
  }
  if (!name.empty() && regions.empty()) {
    return not_found("Unable to find system shared memory region: '", name, "'");
  }
  return regions;
}

Result<SharedMemory::Region> SharedMemory::find(const std::string& name) const {
  const std::scoped_lock lock(mutex_);
  const auto found = regions_.find(name);
  if (found != regions_.end()) return found->second;
  return invalid_argument("Unable to find shared memory region: '", name, "'");
}

Result<RegionBytes> SharedMemory::at(const RegionPlace& place) const {
  PENSTOCK_TRY(const Region region, find(place.region));
  const std::uint64_t size = region.info.byte_size;
  if (place.offset > size || place.byte_size > size - place.offset) {
    return invalid_argument("shared memory region '", place.region, "': ", place.byte_size,
                            " bytes from ", place.offset, " do not lie within its ", size);
  }
  // Who made the object may have shrunk it: what it lacks now cannot be touched. The kernel is
  // asked each time, as it tells nobody of a change; and outside the lock, so that no other request
  // waits.
  PENSTOCK_CHECK_OK(region.object->check(region.info));
  return RegionBytes{{region.begin + place.offset, place.byte_size}, region.object};
}

}  // namespace penstock::serve
