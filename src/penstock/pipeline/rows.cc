// Tells by addresses whether rows lie one behind the other, and copies them where they do not.
#include "penstock/pipeline/rows.h"

#include <cstring>

#include "penstock/pipeline/edge.h"

namespace penstock::pipeline {
namespace {

void copy_row(void* to, const void* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);  // Tensors without elements have no memory.
}

}  // namespace

Rows::Rows(const Type& type, std::size_t count)
    : type_(type), storage_(storage_for(type)), in_place_(storage_), rows_(count) {
  row_bytes_ = storage_.bytes() / count;
}

void Rows::put(std::size_t i, const void* data, const std::shared_ptr<const void>& owner) {
  // Whether it is written to, to_read() and to_write() say.
  rows_[i] = static_cast<std::byte*>(const_cast<void*>(data));  // NOLINT(*-const-cast)
  if (i == 0) owner_ = owner;
}

bool Rows::lie_in_place(std::size_t given) const {
  if (given != rows_.size()) return false;
  for (std::size_t i = 1; i < given; ++i) {
    if (rows_[i] != rows_[0] + i * row_bytes_) return false;
  }
  return true;
}

const Tensor* Rows::to_read(std::size_t given, std::uint64_t& copies) {
  if (lie_in_place(given)) {
    in_place_.move_to(rows_[0], owner_);
    return &in_place_;
  }
  auto* to = static_cast<std::byte*>(storage_.data());
  for (std::size_t i = 0; i < given; ++i) copy_row(to + i * row_bytes_, rows_[i], row_bytes_);
  copies += given;
  return &storage_;
}

Tensor* Rows::to_write(std::size_t given) {
  written_ = &storage_;
  if (lie_in_place(given)) {
    in_place_.move_to(rows_[0], owner_);
    written_ = &in_place_;
  }
  return written_;
}

void Rows::share_out(std::size_t given, std::uint64_t& copies) {
  const auto* from = static_cast<const std::byte*>(written_->data());
  if (written_ == &in_place_ && from == rows_[0]) return;
  for (std::size_t i = 0; i < given; ++i) copy_row(rows_[i], from + i * row_bytes_, row_bytes_);
  copies += given;
  if (written_ == &in_place_) restore();
}

void Rows::restore() {
  restore_storage_for(type_, storage_);
  in_place_ = storage_;
}

void Rows::let_go() {
  owner_.reset();
  in_place_ = storage_;
}

}  // namespace penstock::pipeline
