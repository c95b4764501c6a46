// Writes kernels over rows.
#include "rows.h"

#include <algorithm>

namespace penstock::cuda {
namespace {

/// As many elements of a thread as stay in its registers.
constexpr std::int64_t kMostKept = 16;

unsigned threads_for(std::int64_t columns) {
  if (columns <= 128) return 32;
  if (columns <= 512) return 128;
  return columns <= 4096 ? 256 : 512;
}

}  // namespace

RowKernel::RowKernel(const Expression& x, std::int64_t rows, std::int64_t columns)
    : rows_(rows),
      columns_(columns),
      threads_(threads_for(columns)),
      each_thread_((columns + threads_ - 1) / threads_),
      kept_(each_thread_ <= kMostKept) {
  text_.read("x", x);
  text_.line(concat("const unsigned first = blockIdx.x * ", columns, "u;"));
  if (!kept_) return;
  text_.line(concat("float kept[", each_thread_, "];"));
  text_.line("#pragma unroll");
  text_.line(concat("for (unsigned j = 0; j < ", each_thread_, "u; ++j) {"));
  text_.line(concat("  const unsigned k = threadIdx.x + j * ", threads_, "u;"));
  text_.line(concat("  if (k < ", columns, "u) kept[j] = x(first + k);\n  }"));
}

void RowKernel::each(const std::string& line) {
  text_.line(kept_ ? "#pragma unroll" : "#pragma unroll 4");
  text_.line(concat("for (unsigned j = 0; j < ", each_thread_, "u; ++j) {"));
  text_.line(concat("  const unsigned k = threadIdx.x + j * ", threads_, "u, i = first + k;"));
  text_.line(concat("  if (k < ", columns_, "u) {"));
  text_.line(kept_ ? "    float& v = kept[j];" : "    const float v = x(i);");
  text_.line(concat("    ", line, "\n    }\n  }"));
}

void RowKernel::over_row(const std::string& name, const std::string& function,
                         const std::string& none, const std::string& line) {
  text_.line(concat("float ", name, " = ", none, ";"));
  text_.line(concat("const auto ", name, "_of = [](float a, float b) -> float { return ", function,
                    "; };"));
  each(concat(name, " = ", name, "_of(", name, ", ", line, ");"));
  text_.line(concat(name, " = over_block<", threads_, ">(", name, ", ", name, "_of);"));
}

}  // namespace penstock::cuda
