// Decides where an edge's slots and mirrors lie, allocates them there, and copies tensors.
#include "penstock/pipeline/memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include <sys/mman.h>

#include "penstock/pipeline/edge.h"

namespace penstock::pipeline {
namespace {

/// Of an edge that the pipeline's output does not read.
backend::Memory* own_of(std::span<backend::Memory* const> writers,
                        std::span<backend::Memory* const> readers) {
  const auto far = std::ranges::find_if(
      writers, [](const auto* writer) { return writer != nullptr && writer->reaches_host(); });
  if (far == writers.end()) {
    const bool of_one = !writers.empty() && std::ranges::all_of(writers, [&](const auto* writer) {
      return same_memory(writer, writers.front());
    });
    return of_one ? writers.front() : nullptr;
  }
  const bool of_both = std::ranges::all_of(
      writers, [&](const auto* writer) { return writer == nullptr || same_memory(writer, *far); });
  const bool is_read =
      std::ranges::any_of(readers, [&](const auto* reader) { return same_memory(reader, *far); });
  return of_both && is_read ? *far : nullptr;
}

}  // namespace

std::string name_of(const backend::Memory* memory) {
  return memory == nullptr ? "host" : memory->name();
}

bool same_memory(const backend::Memory* a, const backend::Memory* b) {
  return a == b || (a != nullptr && b != nullptr && a->name() == b->name());
}

bool copies_directly(const backend::Memory* from, const backend::Memory* to) {
  return from == nullptr || to == nullptr || same_memory(from, to) || to->copies_from(*from);
}

std::shared_ptr<void> untouched_pages(std::size_t bytes) {
  const std::size_t length = std::max<std::size_t>(bytes, 1);
  void* pages = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  return {pages, [length](void* begin) { munmap(begin, length); }};
}

EdgeMemories memories_for(std::span<backend::Memory* const> writers,
                          std::span<backend::Memory* const> readers, bool leaves) {
  EdgeMemories made;
  made.own = leaves ? nullptr : own_of(writers, readers);
  const auto mirror = [&](backend::Memory* memory) {
    if (made.own == nullptr && memory != nullptr && memory->reaches_host()) return;
    const auto lies_there = [&](const auto* other) { return same_memory(other, memory); };
    if (!lies_there(made.own) && std::ranges::none_of(made.mirrors, lies_there))
      made.mirrors.push_back(memory);
  };
  for (auto* reader : readers) {
    if (!copies_directly(made.own, reader)) mirror(nullptr);
    mirror(reader);
  }
  for (auto* writer : writers) mirror(writer);
  return made;
}

Result<Tensor> storage_in(backend::Memory* memory, const Type& type) {
  if (memory == nullptr) return storage_for(type);
  const std::size_t bytes = *type.max_bytes();
  auto made = memory->allocate(type.dtype, bytes);
  if (!made) {
    return std::move(made).error().within(concat(bytes, " bytes in memory '", memory->name(), "'"));
  }
  if (made->in_host_memory() || !has_room_for(type, *made)) {
    return internal_error("memory '", memory->name(), "' gave ", made->capacity_bytes(),
                          " bytes of ", made->in_host_memory() ? "the host's" : "its own",
                          " memory: expected ", bytes, " of its own");
  }
  return made;
}

Status restore_storage_in(backend::Memory* memory, const Type& type, Tensor& tensor) {
  if (memory == nullptr) {
    restore_storage_for(type, tensor);
  } else if (tensor.in_host_memory() || !has_room_for(type, tensor)) {
    PENSTOCK_TRY(tensor, storage_in(memory, type));
  }
  return {};
}

Status copy_tensor(const Tensor& from, Tensor& to, backend::Memory& asked) {
  if (!to.set_dims(from.dims())) {
    return internal_error("expected at most ", to.capacity_bytes(), " bytes, found ", from.bytes());
  }
  return from.bytes() == 0 ? Status() : asked.copy(from, to);
}

Tensor part_of(const Tensor& whole, std::size_t offset, std::size_t bytes) {
  Tensor same = whole;  // Shares the storage.
  return Tensor::reserve_in(whole.domain(), whole.dtype(), bytes,
                            static_cast<std::byte*>(same.data()) + offset, whole.owner());
}

Status Within::copy(const Tensor& from, Tensor& to, std::uint64_t& copies) {
  if (!to.set_dims(from.dims())) {
    return internal_error("expected at most ", to.capacity_bytes(), " bytes, found ", from.bytes());
  }
  if (from.bytes() == 0) return {};
  ++copies;
  if (memory_ == nullptr) {
    std::memcpy(to.data(), from.data(), from.bytes());
    return {};
  }
  if (memory_->copies_from(*memory_)) return memory_->copy(from, to);
  if (by_way_.dtype() != from.dtype() || !by_way_.set_dims(from.dims())) {
    by_way_ = Tensor::allocate(from.dtype(), from.dims());
  }
  PENSTOCK_CHECK_OK(memory_->copy(from, by_way_));
  ++copies;
  return memory_->copy(by_way_, to);
}

Result<Tensor> copied_to(backend::Memory* memory, const Tensor& value) {
  PENSTOCK_TRY(Tensor there, storage_in(memory, value.type()));
  PENSTOCK_CHECK_OK(copy_tensor(value, there, *memory));
  return there;
}

Result<Tensor> copied_back(backend::Memory* memory, const Tensor& value) {
  Tensor here = Tensor::allocate(value.dtype(), value.dims());
  PENSTOCK_CHECK_OK(copy_tensor(value, here, *memory));
  return here;
}

Status copy_tensors(std::span<const std::string> names, std::span<const Tensor* const> from,
                    backend::Memory* from_memory, std::span<Tensor> to, backend::Memory* to_memory,
                    std::uint64_t& copies) {
  // The reader's memory is asked; for the host's, the other one.
  backend::Memory& asked = to_memory != nullptr ? *to_memory : *from_memory;
  for (std::size_t i = 0; i < names.size(); ++i) {
    Status copied = copy_tensor(*from[i], to[i], asked);
    if (!copied) {
      const auto way =
          concat("copy from '", name_of(from_memory), "' to '", name_of(to_memory), "'");
      return std::move(copied).error().within(way).within({Where::kTensor, names[i]});
    }
    ++copies;
  }
  return {};
}

}  // namespace penstock::pipeline
