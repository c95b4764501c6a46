// OpenRows: as Rows, of a tensor whose shape is open: each call has frames of one shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

/// The frames are copied to and from storage of its own: slots of the largest shape lie apart.
class OpenRows {
 public:
  /// `type`: of all rows together.
  explicit OpenRows(Type type);

  /// What holds the frames for a call of so many rows that reads them. Rows beyond those that are
  /// given hold the first frame again. Adds to `copies`.
  /// \error kFailedPrecondition  the frames are of different shapes.
  Result<const Tensor*> to_read(std::span<const Tensor* const> frames, std::size_t rows,
                                std::uint64_t& copies);
  /// What a call writes them to; share_out() follows.
  Tensor* to_write();
  /// Brings the rows to where they belong, whatever the call left in to_write(). `fresh`: a frame's
  /// tensor gets storage of its own. \error kInternal  they do not come out even.
  Status share_out(std::span<Tensor* const> frames, std::size_t rows, bool fresh,
                   std::uint64_t& copies);
  /// The call may have put something else in place of its own storage.
  void restore();

 private:
  Type type_;
  Tensor storage_;
  std::vector<std::int64_t> dims_;
};

}  // namespace penstock::pipeline
