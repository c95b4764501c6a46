// Writes kernels' texts.
#include "source.h"

#include <algorithm>
#include <utility>

#include "functions.h"

namespace penstock::cuda {
namespace {

constexpr std::int64_t kVector = 4;

std::vector<Dims> strides_of(const std::vector<Leaf>& leaves) {
  std::vector<Dims> strides;
  for (const Leaf& leaf : leaves) strides.push_back(leaf.strides);
  return strides;
}

/// Whether elements come by four: of four bytes, and each four aligned together or all one.
bool comes_by_four(const Walk& walk, const std::vector<Leaf>& leaves) {
  if (walk.dims.back() % kVector != 0) return false;
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    const Dims& strides = walk.strides[l];
    if (strides.back() == 0) continue;
    if (strides.back() != 1 || leaves[l].offset % kVector != 0) return false;
    if (leaves[l].dtype != DType::kF32 && leaves[l].dtype != DType::kI32) return false;
    for (std::size_t i = 0; i + 1 < strides.size(); ++i) {
      if (strides[i] % kVector != 0) return false;
    }
  }
  return true;
}

/// Four elements with one load where they lie together.
std::string load_four(std::size_t l, const Leaf& leaf, const Dims& strides) {
  const auto pointer = concat("p", l);
  if (strides.back() == 0) {
    return concat("  const ", type_name(leaf.dtype), " v", l, " = ", element(pointer, strides),
                  ";\n");
  }
  return concat("  const ", type_name(leaf.dtype), "4 v", l, " = *(const ", type_name(leaf.dtype),
                "4*)&", element(pointer, strides), ";\n");
}

Kernel by_four(const Expression& value, const std::vector<Leaf>& all, const Walk& walk) {
  KernelText text;
  for (std::size_t l = 0; l < all.size(); ++l) text.pointer(all[l], l + 1 == all.size());
  text.each_element(count_of(walk.dims) / kVector);
  std::string lines = index_lines(walk.dims, "i * 4u");
  for (std::size_t l = 0; l < value.leaves.size(); ++l) {
    lines += load_four(l, all[l], walk.strides[l]);
  }
  const auto out = all.size() - 1;
  lines += concat("  ", type_name(value.dtype), "4 result;\n");
  for (const char part : {'x', 'y', 'z', 'w'}) {
    std::vector<std::string> elements;
    for (std::size_t l = 0; l < value.leaves.size(); ++l) {
      elements.push_back(walk.strides[l].back() == 0 ? concat("v", l) : concat("v", l, ".", part));
    }
    lines += concat("  result.", part, " = ", with_elements(value.code, elements), ";\n");
  }
  text.line(lines);
  text.line(concat("*(", type_name(value.dtype), "4*)&",
                   element(concat("p", out), walk.strides[out]), " = result;"));
  return text.finish();
}

Kernel by_one(const Expression& value, const std::vector<Leaf>& all, const Walk& walk) {
  KernelText text;
  std::vector<std::string> elements;
  for (std::size_t l = 0; l < all.size(); ++l) {
    elements.push_back(element(text.pointer(all[l], l + 1 == all.size()), walk.strides[l]));
  }
  text.each_element(count_of(walk.dims));
  text.line(index_lines(walk.dims));
  text.line(concat(elements.back(), " = ", with_elements(value.code, elements), ";"));
  return text.finish();
}

}  // namespace

Walk walk_of(const Dims& dims, std::vector<Dims> strides) {
  Walk walk{{}, std::vector<Dims>(strides.size())};
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    const bool joins = !walk.dims.empty() && [&] {
      for (std::size_t l = 0; l < strides.size(); ++l) {
        if (walk.strides[l].back() != strides[l][i] * dims[i]) return false;
      }
      return true;
    }();
    if (joins) {
      walk.dims.back() *= dims[i];
      for (std::size_t l = 0; l < strides.size(); ++l) walk.strides[l].back() = strides[l][i];
      continue;
    }
    walk.dims.push_back(dims[i]);
    for (std::size_t l = 0; l < strides.size(); ++l) walk.strides[l].push_back(strides[l][i]);
  }
  if (walk.dims.empty()) {
    walk.dims = {1};
    for (Dims& own : walk.strides) own = {0};
  }
  return walk;
}

std::string element(const std::string& pointer, const Dims& strides) {
  std::string at;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    if (strides[i] == 0) continue;
    at += concat(at.empty() ? "" : " + ", "(int)i", i);
    if (strides[i] != 1) at += concat(" * ", strides[i]);
  }
  return pointer + "[" + (at.empty() ? "0" : at) + "]";
}

std::string index_lines(const Dims& dims, std::string_view number) {
  if (dims.empty()) return {};
  if (dims.size() == 1) return concat("  const unsigned i0 = ", number, ";\n");
  std::string lines = concat("  unsigned rest = ", number, ";\n");
  for (std::size_t d = dims.size() - 1; d > 0; --d) {
    lines += concat("  const unsigned i", d, " = rest % ", dims[d], "u; rest /= ", dims[d], "u;\n");
  }
  return lines + "  const unsigned i0 = rest;\n";
}

std::string KernelText::pointer(const Leaf& leaf, bool written) {
  auto name = concat("p", accesses_.size());
  parameters_ += concat(accesses_.empty() ? "" : ", ", written ? "" : "const ",
                        type_name(leaf.dtype), "* __restrict__ ", name);
  accesses_.push_back({leaf.buffer, leaf.offset, leaf.dtype});
  return name;
}

void KernelText::define(std::string_view name, const Dims& dims, const std::vector<Leaf>& leaves,
                        const std::string& code, std::string_view result, bool written) {
  const Walk walk = walk_of(dims, strides_of(leaves));
  std::vector<std::string> elements;
  for (std::size_t l = 0; l < leaves.size(); ++l) {
    elements.push_back(leaves[l].buffer == kPending
                           ? "pending"
                           : element(pointer(leaves[l], written), walk.strides[l]));
  }
  const auto* const also =
      std::ranges::find(leaves, kPending, &Leaf::buffer) == leaves.end() ? "" : ", float pending";
  body_ += concat("  const auto ", name, " = [&](unsigned i", also, ") -> ", result, " {\n",
                  index_lines(walk.dims), "  return ", with_elements(code, elements), ";\n  };\n");
}

void KernelText::read(std::string_view name, const Expression& value) {
  define(name, value.dims, value.leaves, value.code, type_name(value.dtype), false);
}

void KernelText::write(std::string_view name, const Expression& place) {
  define(name, place.dims, place.leaves, "$0", concat(type_name(place.dtype), "&"), true);
}

void KernelText::each_element(std::int64_t count) {
  count_ = count;
  line("const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;");
  line(concat("if (i >= ", count, "u) return;"));
}

/// Small blocks where there are few elements: all of the device has something to do.
Kernel KernelText::finish() {
  constexpr std::int64_t kFew = 1 << 16;
  const unsigned threads = count_ <= kFew ? 64 : 256;
  return finish(static_cast<unsigned>((count_ + threads - 1) / threads), threads);
}

Kernel KernelText::finish(unsigned blocks, unsigned threads) {
  Kernel kernel{std::string(functions()), std::move(accesses_), blocks, threads};
  kernel.source += concat("extern \"C\" __global__ __launch_bounds__(", threads, ") void kernel(",
                          parameters_, ") {\n", body_, "}\n");
  return kernel;
}

Kernel pointwise_kernel(const Expression& value, const Expression& place) {
  std::vector<Leaf> all = value.leaves;
  all.push_back(place.leaves.front());
  const Walk walk = walk_of(value.dims, strides_of(all));
  const bool words = value.dtype == DType::kF32 || value.dtype == DType::kI32;
  return words && comes_by_four(walk, all) ? by_four(value, all, walk) : by_one(value, all, walk);
}

}  // namespace penstock::cuda
