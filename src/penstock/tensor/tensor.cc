// Allocates, shares, copies and resizes the storage of tensors, and prints types.
#include "penstock/tensor/tensor.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <new>
#include <numeric>
#include <ostream>

namespace penstock {
namespace {

std::size_t count_of(std::span<const std::int64_t> dims) {
  return std::accumulate(
      dims.begin(), dims.end(), std::size_t{1},
      [](std::size_t n, std::int64_t d) { return n * static_cast<std::size_t>(d); });
}

std::string to_string(const Dim& dim) {
  if (dim.fixed()) return std::to_string(dim.size);
  std::string text = dim.symbol.empty() ? "?" : dim.symbol;
  if (dim.bound != Dim::kOpen) text += "<=" + std::to_string(dim.bound);
  return text;
}

}  // namespace

std::optional<WholeRange> meet(const std::optional<WholeRange>& first,
                               const std::optional<WholeRange>& second) {
  if (!first || !second) return first ? first : second;
  const WholeRange both{std::max(first->least, second->least), std::min(first->most, second->most)};
  return both.least <= both.most ? both : *first;
}

Type Type::tensor(DType dtype, std::vector<Dim> dims) {
  Type type;
  type.kind = Kind::kTensor;
  type.dtype = dtype;
  type.ranked = true;
  type.dims = std::move(dims);
  return type;
}

Type Type::tensor(DType dtype, std::span<const std::int64_t> dims) {
  std::vector<Dim> list;
  list.reserve(dims.size());
  for (const auto size : dims) list.push_back({size, {}, Dim::kOpen});
  return tensor(dtype, std::move(list));
}

bool Type::fixed() const {
  return kind == Kind::kTensor && ranked && std::ranges::all_of(dims, &Dim::fixed);
}

std::optional<std::size_t> Type::max_bytes() const {
  if (kind != Kind::kTensor || !ranked || bits_of(dtype) == 0) return std::nullopt;
  std::size_t count = 1;
  for (const auto& dim : dims) {
    const auto size = dim.fixed() ? dim.size : dim.bound;
    if (size == Dim::kOpen) return std::nullopt;
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(size), &count)) return std::nullopt;
  }
  if (count > SIZE_MAX / 256) return std::nullopt;
  return bytes_of(dtype, count);
}

std::string to_string(const Type& type) {
  if (type.kind == Type::Kind::kUnknown) return "?";
  if (type.kind == Type::Kind::kOther) return "other";
  std::string text(to_string(type.dtype));
  if (!type.ranked) return text;
  return text + "[" + join(type.dims, ",", [](const Dim& dim) { return to_string(dim); }) + "]";
}

std::ostream& operator<<(std::ostream& out, const Type& type) {
  return out << to_string(type);
}

Tensor Tensor::allocate(DType dtype, std::vector<std::int64_t> dims) {
  Tensor tensor = reserve(dtype, bytes_of(dtype, count_of(dims)));
  tensor.dims_ = std::move(dims);
  tensor.bytes_ = tensor.capacity_;
  return tensor;
}

Tensor Tensor::reserve(DType dtype, std::size_t capacity_bytes) {
  Tensor tensor;
  tensor.kind_ = Kind::kDense;
  tensor.dtype_ = dtype;
  tensor.dims_ = {0};
  tensor.capacity_ = capacity_bytes;
  const std::size_t rounded =
      (std::max<std::size_t>(capacity_bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  // calloc takes large blocks from the kernel, which zeroes a page where a thread first touches it:
  // on the NUMA node of the stage that writes it, and not before.
  void* block = std::calloc(1, rounded + kAlignment);
  if (block == nullptr) throw std::bad_alloc();
  tensor.owner_ = std::shared_ptr<const void>(block, [](const void* p) {
    std::free(const_cast<void*>(p));  // NOLINT(*-const-cast): owned
  });
  std::size_t space = rounded + kAlignment;
  tensor.data_ = std::align(kAlignment, rounded, block, space);
  return tensor;
}

Tensor Tensor::reserve_in(MemoryDomain domain, DType dtype, std::size_t capacity_bytes, void* data,
                          std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.kind_ = Kind::kDense;
  tensor.dtype_ = dtype;
  tensor.domain_ = domain;
  tensor.dims_ = {0};
  tensor.data_ = data;
  tensor.capacity_ = capacity_bytes;
  tensor.owner_ = std::move(owner);
  return tensor;
}

Tensor Tensor::view(DType dtype, std::vector<std::int64_t> dims, void* data,
                    std::shared_ptr<const void> owner) {
  Tensor tensor;
  tensor.kind_ = Kind::kDense;
  tensor.dtype_ = dtype;
  tensor.dims_ = std::move(dims);
  tensor.bytes_ = tensor.capacity_ = bytes_of(dtype, count_of(tensor.dims_));
  tensor.data_ = data;
  tensor.owner_ = std::move(owner);
  return tensor;
}

void Tensor::move_to(void* data, std::shared_ptr<const void> owner) {
  data_ = data;
  capacity_ = bytes_;
  owner_ = std::move(owner);
}

Tensor Tensor::strings(std::vector<std::int64_t> dims, std::vector<std::string> values) {
  Tensor tensor;
  tensor.kind_ = Kind::kStrings;
  tensor.dtype_ = DType::kString;
  tensor.dims_ = std::move(dims);
  tensor.boxed_ = std::make_shared<const Boxed>(Boxed{std::move(values), {}});
  return tensor;
}

Tensor Tensor::sequence(std::vector<Tensor> elements) {
  Tensor tensor;
  tensor.kind_ = Kind::kSequence;
  tensor.boxed_ = std::make_shared<const Boxed>(Boxed{{}, std::move(elements)});
  return tensor;
}

Tensor Tensor::opaque(std::shared_ptr<const void> value) {
  Tensor tensor;
  tensor.kind_ = Kind::kOpaque;
  tensor.owner_ = std::move(value);
  return tensor;
}

std::size_t Tensor::count() const {
  return count_of(dims_);
}

bool Tensor::set_dims(std::span<const std::int64_t> dims) {
  const auto bytes = bytes_of(dtype_, count_of(dims));
  if (bytes > capacity_) return false;
  dims_.assign(dims.begin(), dims.end());
  bytes_ = bytes;
  return true;
}

void Tensor::release() {
  kind_ = Kind::kNone;
  domain_ = MemoryDomain::kHost;
  dims_.clear();
  data_ = nullptr;
  bytes_ = capacity_ = 0;
  owner_.reset();
  boxed_.reset();
}

Tensor Tensor::clone() const {
  if (kind_ == Kind::kSequence) {
    std::vector<Tensor> copies;
    for (const auto& element : elements()) copies.push_back(element.clone());
    return sequence(std::move(copies));
  }
  if (kind_ != Kind::kDense) return *this;
  Tensor copy = allocate(dtype_, dims_);
  if (bytes_ > 0) std::memcpy(copy.data_, data_, bytes_);
  return copy;
}

Type Tensor::type() const {
  if (kind_ == Kind::kDense || kind_ == Kind::kStrings) {
    return Type::tensor(dtype_, std::span<const std::int64_t>(dims_));
  }
  Type type;
  type.kind = kind_ == Kind::kNone ? Type::Kind::kUnknown : Type::Kind::kOther;
  return type;
}

Status check_matches(const Type& type, const Tensor& value) {
  if (fits(type, value)) return {};
  return invalid_argument("expected ", type, ", found ", value.type());
}

}  // namespace penstock
