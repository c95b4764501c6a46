// Rows: kernels that go through the elements of one row with a block of threads.
#pragma once

#include <string>

#include "builder.h"

namespace penstock::cuda {

/// A kernel of one block for each row of `columns` elements of `x`, read once where they fit into
/// the threads' registers.
class RowKernel {
 public:
  RowKernel(const Expression& x, std::int64_t rows, std::int64_t columns);

  [[nodiscard]] KernelText& text() { return text_; }
  [[nodiscard]] unsigned threads() const { return threads_; }

  /// A line for each element of the row that the thread has: `v` is the element (kept, where it is
  /// changed), `k` its column, `i` its number in the whole.
  void each(const std::string& line);
  /// Declares `name`: over the row, `line`'s value for `v`, put together by `function`, which is
  /// `none` of nothing.
  void over_row(const std::string& name, const std::string& function, const std::string& none,
                const std::string& line);
  Kernel finish() { return text_.finish(static_cast<unsigned>(rows_), threads_); }

 private:
  KernelText text_;
  std::int64_t rows_, columns_;
  unsigned threads_;
  std::int64_t each_thread_;
  bool kept_;
};

}  // namespace penstock::cuda
