// Whose memory tensors lie in, and how they get from one to another. Null stands for the host's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

using MemoryPtr = std::shared_ptr<backend::Memory>;

/// "host", "cuda:0".
std::string name_of(const backend::Memory* memory);
/// Whether what lies in the one lies in the other.
bool same_memory(const backend::Memory* a, const backend::Memory* b);
/// Whether tensors get from the one to the other without passing through the host's.
bool copies_directly(const backend::Memory* from, const backend::Memory* to);

/// Zero-filled memory of the host that no thread has touched yet: on machines of several memory
/// nodes each page comes to lie where the thread runs that touches it first. What the heap gives
/// may have been in use before, and is zeroed by who asks for it. May throw bad_alloc.
std::shared_ptr<void> untouched_pages(std::size_t bytes);

/// Where the slots of an edge lie.
struct EdgeMemories {
  backend::Memory* own = nullptr;         // Of the slots' own tensors; null: the host's.
  std::vector<backend::Memory*> mirrors;  // Of each mirror of a slot; null: the host's.
};
/// Chooses them. Writers and readers are instances of stages, of each the memory in which it
/// computes; null: the host's, as of the pipeline's own ends. `leaves`: the pipeline's output
/// reads.
///
/// A slot lies in the writers' memory if they have the same one and the edge does not leave, else
/// in the host's. It has a mirror in every other memory of its readers and writers, and one in the
/// host's if tensors get to some of them only through that. A memory that reaches_host() needs no
/// mirror of a slot in the host's; a slot lies in such a memory if one of the writers and one of
/// the readers compute there, even where others compute in the host's.
EdgeMemories memories_for(std::span<backend::Memory* const> writers,
                          std::span<backend::Memory* const> readers, bool leaves);

/// As storage_for(), in the memory. \pre  the type has a bound.
Result<Tensor> storage_in(backend::Memory* memory, const Type& type);
/// As restore_storage_for(), in the memory.
Status restore_storage_in(backend::Memory* memory, const Type& type, Tensor& tensor);

/// `bytes` of a tensor from `offset` on, in whatever memory, as yet of no shape; they share its
/// storage.
Tensor part_of(const Tensor& whole, std::size_t offset, std::size_t bytes);

/// Asks the memory, which is not the host's, for a copy, and gives `to` the shape of `from`.
/// \error  of the copy; kInternal  there is no room.
Status copy_tensor(const Tensor& from, Tensor& to, backend::Memory& asked);

/// Copies from one place of a memory to another place of it: by itself in the host's, elsewhere by
/// the memory, or through the host's where that does not.
class Within {
 public:
  explicit Within(backend::Memory* memory = nullptr) : memory_(memory) {}
  /// Gives `to` the shape of `from`. Adds to `copies`: two on the way through the host's.
  /// \error  of a copy; kInternal  there is no room.
  Status copy(const Tensor& from, Tensor& to, std::uint64_t& copies);

 private:
  backend::Memory* memory_;
  Tensor by_way_;
};

/// Copies to storage of the memory from the host's, or back, tensors that lie on no edge.
Result<Tensor> copied_to(backend::Memory* memory, const Tensor& value);
Result<Tensor> copied_back(backend::Memory* memory, const Tensor& value);

/// Copies tensors of one edge, and adds to `copies`. \pre copies_directly()
/// \error  of a copy; names the tensor and both memories.
Status copy_tensors(std::span<const std::string> names, std::span<const Tensor* const> from,
                    backend::Memory* from_memory, std::span<Tensor> to, backend::Memory* to_memory,
                    std::uint64_t& copies);

}  // namespace penstock::pipeline
