// What was computed of large constants, kept as long as their storage lives.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "penstock/tensor/tensor.h"

namespace penstock {

/// Weights of gigabytes are asked the same for each model that is written of them: the answer is
/// found once. Small tensors, and those whose storage nobody owns, are asked each time.
/// \threads any
template <typename Value>
class TensorMemo {
 public:
  static constexpr std::size_t kLeastBytes = std::size_t{1} << 20U;

  /// `compute` without arguments gives the value. \pre no one writes to the tensor's storage
  template <typename Compute>
  Value get(const Tensor& tensor, const Compute& compute) {
    if (tensor.owner() == nullptr || tensor.bytes() < kLeastBytes) return compute();
    const Key key{tensor.data(), tensor.dtype(), tensor.dims()};
    if (auto known = find(key, tensor)) return *std::move(known);
    Value value = compute();
    const std::scoped_lock lock(mutex_);
    std::erase_if(entries_, [](const auto& entry) { return entry.second.owner.expired(); });
    entries_.insert_or_assign(key, Entry{tensor.owner(), value});
    return value;
  }

 private:
  using Key = std::tuple<const void*, DType, std::vector<std::int64_t>>;
  struct Entry {
    std::weak_ptr<const void> owner;
    Value value;
  };

  std::optional<Value> find(const Key& key, const Tensor& tensor) {
    const std::scoped_lock lock(mutex_);
    const auto found = entries_.find(key);
    if (found == entries_.end() || found->second.owner.lock() != tensor.owner()) return {};
    return found->second.value;
  }

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

}  // namespace penstock
