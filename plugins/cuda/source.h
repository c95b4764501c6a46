// Source: the text of kernels over expressions, with all shapes and strides as constants in it.
#pragma once

#include <string>
#include <vector>

#include "expression.h"

namespace penstock::cuda {

/// A parameter of a kernel: a pointer into a buffer.
struct Access {
  std::size_t buffer = 0;
  std::int64_t offset = 0;  ///< Elements of `dtype`.
  DType dtype = DType::kF32;
};

/// A kernel's text, `extern "C" __global__ void kernel(...)`, and what it is called with.
struct Kernel {
  std::string source;
  std::vector<Access> accesses;  ///< As its parameters. The last ones are written.
  unsigned blocks = 1;
  unsigned threads = 1;
};

/// How operands of one shape are gone through together: with as few dimensions as all allow.
struct Walk {
  Dims dims;                  ///< Outermost first; at least one.
  std::vector<Dims> strides;  ///< Of each operand, in elements.
};
Walk walk_of(const Dims& dims, std::vector<Dims> strides);

/// Puts a kernel together. Parameters are named as they are added: p0, p1, ...
class KernelText {
 public:
  /// Defines `name`(i): the expression's element i, counted in C order; `name`(i, value) where it
  /// is of Expression::pending(), which is that value.
  void read(std::string_view name, const Expression& value);
  /// Defines `name`(i): a reference to the element i of a place. Written; all reads come first.
  void write(std::string_view name, const Expression& place);
  /// A line of the kernel's body.
  void line(const std::string& text) { body_ += "  " + text + "\n"; }
  /// A pointer by itself, for who computes addresses; returns its name.
  std::string pointer(const Leaf& leaf, bool written);

  /// Lines that set `i` to the thread's number, of so many.
  void each_element(std::int64_t count);

  /// \pre one of the two is called, once. Of each_element():
  Kernel finish();
  Kernel finish(unsigned blocks, unsigned threads);

 private:
  void define(std::string_view name, const Dims& dims, const std::vector<Leaf>& leaves,
              const std::string& code, std::string_view result, bool written);

  std::string parameters_, body_;
  std::int64_t count_ = 0;
  std::vector<Access> accesses_;
};

/// "p0[i1 * 3 + i0]" of a leaf: its element at the indices i0 (of the outermost), i1, ...
std::string element(const std::string& pointer, const Dims& strides);

/// Lines that set i0, i1, ... to the index of the element with that number.
std::string index_lines(const Dims& dims, std::string_view number = "i");

/// Computes the expression into the place, an element or four by a thread.
Kernel pointwise_kernel(const Expression& value, const Expression& place);

}  // namespace penstock::cuda
