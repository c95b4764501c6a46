// An engine's values over the caller's buffers, which come by again and again: none is made twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "penstock/tensor/tensor.h"

namespace penstock::backend {

/// `Value`: a smart pointer to the engine's object; empty by default. One thread.
///
/// A hash table of few probes; it doubles when too many buffers fall together, up to a limit from
/// which on the older one is forgotten.
template <typename Value>
class BufferCache {
 public:
  using Pointer = Value::pointer;

  BufferCache() : entries_(kFirstEntries) {}

  /// Of the buffer with that shape; null if it is not there. Valid until the next add().
  [[nodiscard]] Pointer find(const Tensor& tensor) const {
    const std::size_t first = hash_of(tensor.data(), tensor.dims());
    for (std::size_t i = 0; i < kProbes; ++i) {
      const Entry& entry = entries_[(first + i) & (entries_.size() - 1)];
      if (entry.data == tensor.data() && entry.value != nullptr && entry.dims == tensor.dims()) {
        return entry.value.get();
      }
    }
    return nullptr;
  }

  /// \pre find() found nothing.
  Pointer add(const Tensor& tensor, Value value) {
    return put({tensor.data(), tensor.dims(), std::move(value)}).value.get();
  }

 private:
  static constexpr std::size_t kFirstEntries = 16;
  static constexpr std::size_t kMostEntries = 1024;
  static constexpr std::size_t kProbes = 4;

  struct Entry {
    const void* data = nullptr;
    std::vector<std::int64_t> dims;
    Value value;
  };

  static std::size_t hash_of(const void* data, std::span<const std::int64_t> dims) {
    constexpr std::size_t kOddConstant = 0x9E3779B97F4A7C15;
    std::size_t hash = reinterpret_cast<std::uintptr_t>(data) >> 4;
    for (const auto dim : dims) hash = (hash ^ static_cast<std::size_t>(dim)) * kOddConstant;
    return (hash * kOddConstant) >> 32;
  }

  /// Null if the places of that hash are taken.
  Entry* vacant(const void* data, std::span<const std::int64_t> dims) {
    const std::size_t first = hash_of(data, dims);
    for (std::size_t i = 0; i < kProbes; ++i) {
      Entry& entry = entries_[(first + i) & (entries_.size() - 1)];
      if (entry.value == nullptr) return &entry;
    }
    return nullptr;
  }

  /// Growing may put others together anew: it goes on until all have a place, or to the limit.
  Entry& put(Entry entry) {
    Entry* place = vacant(entry.data, entry.dims);
    while (place == nullptr && entries_.size() < kMostEntries) {
      grow();
      place = vacant(entry.data, entry.dims);
    }
    if (place == nullptr) place = &entries_[hash_of(entry.data, entry.dims) % kMostEntries];
    *place = std::move(entry);
    return *place;
  }

  void grow() {
    std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(entries_.size() * 2));
    for (Entry& entry : old) {
      if (entry.value != nullptr) put(std::move(entry));
    }
  }

  std::vector<Entry> entries_;
};

}  // namespace penstock::backend
