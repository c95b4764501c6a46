// OpenRows: as Rows, of a tensor whose shape is open: each call has frames of one shape.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/pipeline/memory.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

/// The frames are copied to and from storage of its own: slots of the largest shape lie apart.
class OpenRows {
 public:
  /// `memory`: in which all frames lie; null: the host's. `type`: of all rows together; in another
  /// memory it has a bound. \error  of the memory that gives no storage.
  static Result<OpenRows> make(backend::Memory* memory, Type type);

  /// What holds the frames for a call of so many rows that reads them. Rows beyond those that are
  /// given hold the first frame again. Adds to `copies`.
  /// \error kFailedPrecondition  the frames are of different shapes; or of a copy, where the memory
  ///                             is not the host's.
  Result<const Tensor*> to_read(std::span<const Tensor* const> frames, std::size_t rows,
                                std::uint64_t& copies);
  /// What a call writes the frames to; share_out() follows. \error  as make().
  Result<Tensor*> to_write();
  /// Brings the rows to where they belong, whatever the call left in to_write(). `fresh`: a frame's
  /// tensor gets storage of its own. \error kInternal  they do not come out even; or of a copy.
  Status share_out(std::span<Tensor* const> frames, std::size_t rows, bool fresh,
                   std::uint64_t& copies);
  /// The call may have put something else in place of its own storage. \error  as make().
  Status restore();

 private:
  OpenRows(backend::Memory* memory, Type type);

  backend::Memory* memory_;
  Within within_;
  Type type_;
  Tensor storage_;
  std::vector<std::int64_t> dims_;
};

}  // namespace penstock::pipeline
