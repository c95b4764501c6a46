// Memory of a made-up device, which the host cannot read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <mutex>
#include <new>

#include <sys/mman.h>
#include <unistd.h>

namespace penstock::testing {

/// Pages mapped twice: without access at the address that tensors show, and for the device. Who
/// reads the first is ended by the kernel.
class HiddenPages {
 public:
  explicit HiddenPages(std::size_t bytes) : bytes_(std::max<std::size_t>(bytes, 1)) {
    const int file = memfd_create("device memory", 0);
    if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0) throw std::bad_alloc();
    shown_ = mmap(nullptr, bytes_, PROT_NONE, MAP_SHARED, file, 0);
    used_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (shown_ == MAP_FAILED || used_ == MAP_FAILED) throw std::bad_alloc();
    const std::scoped_lock lock(mutex());
    all()[shown_] = used_;
  }
  ~HiddenPages() {
    {
      const std::scoped_lock lock(mutex());
      all().erase(shown_);
    }
    munmap(shown_, bytes_);
    munmap(used_, bytes_);
  }
  HiddenPages(const HiddenPages&) = delete;
  HiddenPages& operator=(const HiddenPages&) = delete;

  [[nodiscard]] void* shown() const { return shown_; }
  /// Where devices read and write what a tensor shows, which may lie anywhere in the pages.
  static void* used(const void* shown) {
    const std::scoped_lock lock(mutex());
    const auto& [begin, page] = *std::prev(all().upper_bound(shown));
    const auto offset = static_cast<const std::byte*>(shown) - static_cast<const std::byte*>(begin);
    return static_cast<std::byte*>(page) + offset;
  }
  static std::size_t count() {
    const std::scoped_lock lock(mutex());
    return all().size();
  }

 private:
  // Neither is destroyed: a copy that was left behind may still ask when the process ends.
  static std::mutex& mutex() {
    static auto* const made = new std::mutex;
    return *made;
  }
  static std::map<const void*, void*>& all() {
    static auto* const made = new std::map<const void*, void*>;
    return *made;
  }

  std::size_t bytes_;
  void *shown_ = nullptr, *used_ = nullptr;
};

}  // namespace penstock::testing
