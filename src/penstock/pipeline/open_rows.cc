// Copies frames of one shape behind one another, and takes a call's output apart again.
#include "penstock/pipeline/open_rows.h"

#include <cstring>
#include <utility>

#include "penstock/pipeline/edge.h"

namespace penstock::pipeline {
namespace {

void give_shape(Tensor& tensor, DType dtype, const std::vector<std::int64_t>& dims) {
  const bool fits = tensor.kind() == Tensor::Kind::kDense && tensor.dtype() == dtype;
  if (!fits || !tensor.set_dims(dims)) tensor = Tensor::allocate(dtype, dims);
}

}  // namespace

OpenRows::OpenRows(backend::Memory* memory, Type type)
    : memory_(memory), within_(memory), type_(std::move(type)) {}

Result<OpenRows> OpenRows::make(backend::Memory* memory, Type type) {
  OpenRows made(memory, std::move(type));
  PENSTOCK_CHECK_OK(made.restore());
  return made;
}

Result<const Tensor*> OpenRows::to_read(std::span<const Tensor* const> frames, std::size_t rows,
                                        std::uint64_t& copies) {
  const Tensor& first = *frames.front();
  for (const Tensor* frame : frames) {
    if (frame->dims() == first.dims()) continue;
    return make_error(Code::kFailedPrecondition, "frames of different shapes, ", first.type(),
                      " and ", frame->type(), ", cannot share a call");
  }
  dims_ = first.dims();
  dims_.front() *= static_cast<std::int64_t>(rows);
  if (memory_ != nullptr) {
    PENSTOCK_CHECK_OK(restore());
    if (!storage_.set_dims(dims_)) return internal_error("no room for ", rows, " x ", first.type());
    for (std::size_t i = 0; i < rows; ++i) {
      Tensor row = part_of(storage_, i * first.bytes(), first.bytes());
      PENSTOCK_CHECK_OK(within_.copy(*frames[i < frames.size() ? i : 0], row, copies));
    }
    return &storage_;
  }
  give_shape(storage_, type_.dtype, dims_);
  auto* to = static_cast<std::byte*>(storage_.data());
  for (std::size_t i = 0; i < rows && first.bytes() > 0; ++i) {
    std::memcpy(to, frames[i < frames.size() ? i : 0]->data(), first.bytes());
    to += first.bytes();
  }
  copies += rows;
  return &storage_;
}

Result<Tensor*> OpenRows::to_write() {
  PENSTOCK_CHECK_OK(restore());
  return &storage_;
}

Status OpenRows::share_out(std::span<Tensor* const> frames, std::size_t rows, bool fresh,
                           std::uint64_t& copies) {
  dims_ = storage_.dims();
  if (dims_.empty() || dims_.front() % static_cast<std::int64_t>(rows) != 0) {
    return internal_error("expected the rows of ", rows, " frames, found ", storage_.type());
  }
  dims_.front() /= static_cast<std::int64_t>(rows);
  const auto bytes = storage_.bytes() / rows;
  if (memory_ != nullptr) {
    for (std::size_t i = 0; i < frames.size(); ++i) {
      Tensor row = part_of(storage_, i * bytes, bytes);
      if (!row.set_dims(dims_)) return internal_error("no room for ", storage_.type());
      PENSTOCK_CHECK_OK(within_.copy(row, *frames[i], copies));
    }
    return {};
  }
  const auto* from = static_cast<const std::byte*>(storage_.data());
  for (Tensor* frame : frames) {
    if (fresh) *frame = Tensor();
    give_shape(*frame, storage_.dtype(), dims_);
    if (bytes > 0) std::memcpy(frame->data(), from, bytes);
    from += bytes;
  }
  copies += frames.size();
  return {};
}

Status OpenRows::restore() {
  if (type_.max_bytes()) return restore_storage_in(memory_, type_, storage_);
  storage_ = Tensor();  // The backend allocates.
  return {};
}

}  // namespace penstock::pipeline
