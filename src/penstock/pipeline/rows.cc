// Tells by addresses whether rows lie one behind the other, and copies them where they do not.
#include "penstock/pipeline/rows.h"

#include <cstring>

#include "penstock/pipeline/edge.h"

namespace penstock::pipeline {
namespace {

void copy_row(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);  // Tensors without elements have no memory.
}

// So that the warm-up, which no frame fills, reads nothing odd: an index, say, is in range.
Status fill_with_zeros(backend::Memory& memory, const Type& type, Tensor& tensor) {
  const Tensor zeros = storage_for(type);
  return zeros.bytes() == 0 ? Status() : memory.copy(zeros, tensor);
}

}  // namespace

Status Rows::open(backend::Memory* memory, const Type& type, std::size_t count) {
  memory_ = memory;
  type_ = type;
  PENSTOCK_TRY(storage_, storage_in(memory, type));
  in_place_ = storage_;
  row_bytes_ = storage_.bytes() / count;
  rows_.resize(count);
  owners_.resize(count);
  if (memory == nullptr) return {};
  PENSTOCK_CHECK_OK(fill_with_zeros(*memory, type, storage_));
  within_ = Within(memory);
  auto dims = storage_.dims();
  dims.front() /= static_cast<std::int64_t>(count);
  row_ = of_call_ = part_of(storage_, 0, row_bytes_);
  const bool fits = row_.set_dims(dims) && of_call_.set_dims(dims);
  return fits ? Status() : internal_error("a row is too short for its part of ", type);
}

void Rows::put(std::size_t i, const void* data, const std::shared_ptr<const void>& owner) {
  // Whether it is written to, to_read() and to_write() say.
  rows_[i] = static_cast<std::byte*>(const_cast<void*>(data));  // NOLINT(*-const-cast)
  if (i == 0 || memory_ != nullptr) owners_[i] = owner;
}

// In another memory what has its places side by side may be two allocations all the same.
bool Rows::lie_in_place(std::size_t given) const {
  if (given != rows_.size()) return false;
  for (std::size_t i = 1; i < given; ++i) {
    if (rows_[i] != rows_[0] + i * row_bytes_) return false;
    if (memory_ != nullptr && owners_[i] != owners_[0]) return false;
  }
  return true;
}

Status Rows::copy_rows_to(Tensor& whole, std::size_t given, std::uint64_t& copies) {
  auto* to = static_cast<std::byte*>(whole.data());
  for (std::size_t i = 0; i < rows_.size(); ++i, to += row_bytes_) {
    const std::size_t from = i < given ? i : 0;
    row_.move_to(rows_[from], owners_[from]);
    of_call_.move_to(to, whole.owner());
    PENSTOCK_CHECK_OK(within_.copy(row_, of_call_, copies));
  }
  return {};
}

Status Rows::copy_rows_from(const Tensor& whole, std::size_t given, std::uint64_t& copies) {
  Tensor same = whole;  // Shares the storage; is read only.
  auto* from = static_cast<std::byte*>(same.data());
  for (std::size_t i = 0; i < given; ++i, from += row_bytes_) {
    of_call_.move_to(from, whole.owner());
    row_.move_to(rows_[i], owners_[i]);
    PENSTOCK_CHECK_OK(within_.copy(of_call_, row_, copies));
  }
  return {};
}

Result<const Tensor*> Rows::to_read(std::size_t given, std::uint64_t& copies) {
  if (lie_in_place(given)) {
    in_place_.move_to(rows_[0], owners_[0]);
    return &in_place_;
  }
  if (given == 0) return &storage_;  // Warms up, on zeros.
  if (memory_ != nullptr) {
    PENSTOCK_CHECK_OK(copy_rows_to(storage_, given, copies));
    return &storage_;
  }
  auto* to = static_cast<std::byte*>(storage_.data());
  for (std::size_t i = 0; i < rows_.size(); ++i, to += row_bytes_) {
    copy_row(to, rows_[i < given ? i : 0], row_bytes_);
  }
  copies += rows_.size();
  return &storage_;
}

Tensor* Rows::to_write(std::size_t given) {
  written_ = &storage_;
  if (lie_in_place(given)) {
    in_place_.move_to(rows_[0], owners_[0]);
    written_ = &in_place_;
  }
  return written_;
}

Status Rows::share_out(std::size_t given, std::uint64_t& copies) {
  const auto* from = static_cast<const std::byte*>(written_->data());
  if (written_ == &in_place_ && from == rows_[0]) return {};
  if (memory_ != nullptr) {
    PENSTOCK_CHECK_OK(copy_rows_from(*written_, given, copies));
  } else {
    for (std::size_t i = 0; i < given; ++i) copy_row(rows_[i], from + i * row_bytes_, row_bytes_);
    copies += given;
  }
  return written_ == &in_place_ ? restore() : Status();
}

Status Rows::restore() {
  PENSTOCK_CHECK_OK(restore_storage_in(memory_, type_, storage_));
  in_place_ = storage_;
  return {};
}

void Rows::let_go() {
  for (auto& owner : owners_) owner.reset();
  in_place_ = storage_;
}

}  // namespace penstock::pipeline
