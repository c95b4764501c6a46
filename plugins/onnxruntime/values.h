// Tensor <-> OrtValue.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine.h"
#include "penstock/backend/buffer_cache.h"
#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::ort {

using Value = Handle<OrtValue>;
using ValueCache = backend::BufferCache<Value>;

/// An OrtValue over memory that the caller keeps alive.
Result<Value> borrow(const Engine& engine, DType dtype, std::span<const std::int64_t> dims,
                     void* data, std::size_t size_bytes);

/// An OrtValue of any kind but kNone, kOpaque and the empty sequence. Dense ones are borrowed.
Result<Value> to_value(const Engine& engine, const Tensor& tensor);

/// A Tensor that owns `value`, or what it holds; maps of a sequence are pairs of their keys and
/// their values. `session` is kept alive for as long as it.
Result<Tensor> to_tensor(const Engine& engine, Value value, std::shared_ptr<const void> session);

/// The OrtValue of a Tensor that to_tensor() made opaque.
const OrtValue* opaque_value(const Tensor& tensor);

}  // namespace penstock::ort
