// Types known before a run (Type) and values during one (Tensor).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/dtype.h"

namespace penstock {

/// One dimension of a type: fixed, or open with a name ("batch") and perhaps an upper bound.
struct Dim {
  static constexpr std::int64_t kOpen = -1;

  std::int64_t size = kOpen;   ///< >= 0, or kOpen.
  std::string symbol;          ///< Name of an open dimension; empty if it has none.
  std::int64_t bound = kOpen;  ///< Upper bound of an open dimension; kOpen if nothing bounds it.
  std::int64_t usual = kOpen;  ///< Of one that nothing bounds: a size that the network takes.

  [[nodiscard]] bool fixed() const { return size != kOpen; }
  /// What it is in a frame of which nobody says more: its size, its bound, the usual size, or 1.
  [[nodiscard]] std::int64_t likely() const {
    for (const auto known : {size, bound, usual}) {
      if (known != kOpen) return known;
    }
    return 1;
  }
  /// A usual size is no part of what two types agree in.
  bool operator==(const Dim& other) const {
    return size == other.size && symbol == other.symbol && bound == other.bound;
  }
};

/// The whole numbers from `least` to `most`, both among them. \pre least <= most
struct WholeRange {
  std::int64_t least = 0, most = 0;
  bool operator==(const WholeRange&) const = default;
};

/// What both allow. Where they exclude each other no number can be right, and the first stays.
std::optional<WholeRange> meet(const std::optional<WholeRange>& first,
                               const std::optional<WholeRange>& second);

/// What is known of a value before it is computed.
struct Type {
  enum class Kind : std::uint8_t {
    kUnknown,  ///< Inference cannot say.
    kTensor,   ///< dtype known; the shape if `ranked`.
    kOther,    ///< A sequence, optional, map or sparse tensor: `onnx` says which.
  };

  Kind kind = Kind::kUnknown;
  DType dtype = DType::kUndefined;
  bool ranked = false;
  std::vector<Dim> dims;  ///< Empty unless `ranked`; then empty means a scalar.
  std::string onnx;       ///< kOther: the serialised onnx.TypeProto.

  static Type tensor(DType dtype, std::vector<Dim> dims);
  static Type tensor(DType dtype, std::span<const std::int64_t> dims);

  /// True if every dimension is fixed.
  [[nodiscard]] bool fixed() const;
  /// Bytes of a value, open dimensions taken at their bound; empty if something is unbounded.
  [[nodiscard]] std::optional<std::size_t> max_bytes() const;
  bool operator==(const Type&) const = default;
};

/// "f32[1,3,224,224]", "f32[batch,?]", "i64[n<=512]", "f32" if unranked, "?" if unknown, "other".
std::string to_string(const Type& type);
std::ostream& operator<<(std::ostream& out, const Type& type);

/// Where a buffer lives. Host memory is 0. Any other number is memory that the host may be unable
/// to read, which backend::Memory makes and copies: a device's ordinal and 1, "cuda:0" is 1.
enum class MemoryDomain : std::uint16_t { kHost = 0 };

/// A value: a dense tensor over shared, 64-byte aligned storage; strings; a sequence; or nothing
/// (an absent optional). Copies are cheap and share the storage.
class Tensor {
 public:
  enum class Kind : std::uint8_t {
    kNone,      ///< No value yet, or an absent optional.
    kDense,     ///< Numbers: data() points at bytes() bytes, C order.
    kStrings,   ///< strings(), C order.
    kSequence,  ///< elements().
    kOpaque,    ///< Only the backend that made it can read it (a map, a sparse tensor).
  };

  static constexpr std::size_t kAlignment = 64;

  Tensor() = default;
  /// Zero-filled storage of its own. \pre `dtype` is not kString, every dim >= 0.
  static Tensor allocate(DType dtype, std::vector<std::int64_t> dims);
  /// Storage of `capacity_bytes`, as yet of no shape: set_dims() gives it one within the capacity.
  static Tensor reserve(DType dtype, std::size_t capacity_bytes);
  /// reserve() over storage in any memory, which is not touched here; `owner` frees it.
  static Tensor reserve_in(MemoryDomain domain, DType dtype, std::size_t capacity_bytes, void* data,
                           std::shared_ptr<const void> owner);
  /// Borrows `data`; `owner` keeps it alive (null: the caller does).
  static Tensor view(DType dtype, std::vector<std::int64_t> dims, void* data,
                     std::shared_ptr<const void> owner = nullptr);
  static Tensor strings(std::vector<std::int64_t> dims, std::vector<std::string> values);
  static Tensor sequence(std::vector<Tensor> elements);
  static Tensor opaque(std::shared_ptr<const void> value);

  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] const std::vector<std::int64_t>& dims() const { return dims_; }
  [[nodiscard]] std::size_t count() const;  ///< Product of dims.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] std::size_t capacity_bytes() const { return capacity_; }
  [[nodiscard]] void* data() { return data_; }
  [[nodiscard]] const void* data() const { return data_; }
  [[nodiscard]] MemoryDomain domain() const { return domain_; }
  /// Whether data() may be read here.
  [[nodiscard]] bool in_host_memory() const { return domain_ == MemoryDomain::kHost; }
  [[nodiscard]] const std::vector<std::string>& strings() const { return boxed_->strings; }
  [[nodiscard]] const std::vector<Tensor>& elements() const { return boxed_->elements; }
  [[nodiscard]] const std::shared_ptr<const void>& owner() const { return owner_; }

  template <typename T>
  [[nodiscard]] std::span<T> as() {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }
  template <typename T>
  [[nodiscard]] std::span<const T> as() const {
    return {static_cast<const T*>(data_), bytes_ / sizeof(T)};
  }

  /// Reshapes in place without allocating unless the rank grows. False, and nothing changed, if
  /// the new size is over the capacity.
  [[nodiscard]] bool set_dims(std::span<const std::int64_t> dims);

  /// Borrows other memory of `bytes()` bytes in place of its own; dtype and shape stay.
  /// \pre kDense
  void move_to(void* data, std::shared_ptr<const void> owner);

  /// Lets go of the storage; like a new Tensor, but keeps room for dims, so that assigning another
  /// tensor of no higher rank allocates nothing.
  void release();

  /// A deep copy with storage of its own. \pre in_host_memory()
  [[nodiscard]] Tensor clone() const;
  /// The type of this value, every dimension fixed.
  [[nodiscard]] Type type() const;

 private:
  struct Boxed {
    std::vector<std::string> strings;
    std::vector<Tensor> elements;
  };

  Kind kind_ = Kind::kNone;
  DType dtype_ = DType::kUndefined;
  MemoryDomain domain_ = MemoryDomain::kHost;
  std::vector<std::int64_t> dims_;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t capacity_ = 0;
  std::shared_ptr<const void> owner_;   // Shared by copies; frees the storage.
  std::shared_ptr<const Boxed> boxed_;  // Shared by copies; strings and sequences.
};

/// Whether `value` may stand where `type` is declared.
inline bool fits(const Type& type, const Tensor& value) {
  if (type.kind != Type::Kind::kTensor) return true;
  if (value.dtype() != type.dtype) return false;
  if (!type.ranked) return true;
  const auto& dims = value.dims();
  if (dims.size() != type.dims.size()) return false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const Dim& dim = type.dims[i];
    if (dim.fixed() ? dims[i] != dim.size : dim.bound != Dim::kOpen && dims[i] > dim.bound) {
      return false;
    }
  }
  return true;
}
/// fits(), with an error that says what was expected and found.
/// \error kInvalidArgument  "expected f32[1,3,224,224], found u8[1,224,224,3]"
Status check_matches(const Type& type, const Tensor& value);

}  // namespace penstock
