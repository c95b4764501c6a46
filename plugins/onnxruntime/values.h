// Tensor <-> OrtValue.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine.h"
#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::ort {

using Value = Handle<OrtValue>;

/// An OrtValue over memory that the caller keeps alive.
Result<Value> borrow(const Engine& engine, DType dtype, std::span<const std::int64_t> dims,
                     void* data, std::size_t size_bytes);

/// An OrtValue of any kind but kNone, kOpaque and the empty sequence. Dense ones are borrowed.
Result<Value> to_value(const Engine& engine, const Tensor& tensor);

/// A Tensor that owns `value`, or what it holds. `session` is kept alive for as long as it.
Result<Tensor> to_tensor(const Engine& engine, Value value, std::shared_ptr<const void> session);

/// The OrtValue of a Tensor that to_tensor() made opaque.
const OrtValue* opaque_value(const Tensor& tensor);

/// OrtValues over the buffers that come by again and again, so that none is made twice.
///
/// A hash table of few probes; it doubles when too many buffers fall together, up to a limit from
/// which on the older one is forgotten. One thread.
class ValueCache {
 public:
  ValueCache();

  /// Null if it is not there. Valid until the next make().
  [[nodiscard]] OrtValue* find(const Tensor& tensor) const;
  /// \pre find() found nothing.
  Result<OrtValue*> make(const Engine& engine, const Tensor& tensor);

 private:
  struct Entry {
    const void* data = nullptr;
    std::vector<std::int64_t> dims;
    Value value;
  };

  Entry* vacant(const void* data, std::span<const std::int64_t> dims);
  void grow();

  std::vector<Entry> entries_;
};

}  // namespace penstock::ort
