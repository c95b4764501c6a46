// Rows: one tensor of a call that holds several frames (or items) along its first dimension.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "penstock/pipeline/memory.h"
#include "penstock/tensor/tensor.h"

namespace penstock::pipeline {

/// Where the rows lie one behind the other and are as many as the call takes, the call reads and
/// writes them there. Else they are copied to or from storage of its own. What a call reads there
/// beyond the rows that are given is row 0 again: what is no frame's might be no fair input.
class Rows {
 public:
  /// `memory`: in which all rows lie; null: the host's. `type`: of all rows together, fixed.
  /// `count`: how many rows it has. \error  of the memory that gives no storage.
  Status open(backend::Memory* memory, const Type& type, std::size_t count);

  /// Row i is at `data`; `owner` keeps it alive. \pre i < the count.
  void put(std::size_t i, const void* data, const std::shared_ptr<const void>& owner);

  /// What holds the first `given` rows for a call that reads them. Adds to `copies`.
  /// \error  of a copy, where the memory is not the host's.
  Result<const Tensor*> to_read(std::size_t given, std::uint64_t& copies);
  /// What a call writes the first `given` rows to; share_out() follows.
  Tensor* to_write(std::size_t given);
  /// Brings the first `given` rows to where they belong: whatever the call left in to_write().
  /// \error  as to_read().
  Status share_out(std::size_t given, std::uint64_t& copies);
  /// The call may have put something else in place of its own storage. \error  as open().
  Status restore();
  /// Holds the rows' memory no longer. \pre  the call has ended.
  void let_go();

 private:
  [[nodiscard]] bool lie_in_place(std::size_t given) const;
  Status copy_rows_to(Tensor& whole, std::size_t given, std::uint64_t& copies);
  Status copy_rows_from(const Tensor& whole, std::size_t given, std::uint64_t& copies);

  backend::Memory* memory_ = nullptr;
  Type type_;
  std::size_t row_bytes_ = 0;
  Tensor storage_;                // Room for all rows, to and from which they are copied.
  Tensor in_place_;               // Shows all rows where they lie one behind the other.
  Tensor* written_ = nullptr;     // What to_write() returned: storage_ or in_place_.
  std::vector<std::byte*> rows_;  // Of each row: where put() said it is.
  // Keep the rows alive: in the host's memory one owner, that of row 0; elsewhere one for each row.
  std::vector<std::shared_ptr<const void>> owners_;
  // For copies in another memory than the host's: views of a row where it belongs and in storage_.
  Tensor row_, of_call_;
  Within within_;
};

}  // namespace penstock::pipeline
