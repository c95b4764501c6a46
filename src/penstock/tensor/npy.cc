// Converts byte order, Fortran order and texts, and checks the size before it takes memory.
#include "penstock/tensor/npy.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <numeric>
#include <system_error>
#include <utility>

#include "penstock/base/files.h"
#include "penstock/base/words.h"
#include "penstock/tensor/npy_header.h"
#include "penstock/tensor/utf.h"

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr char kOurOrder = std::endian::native == std::endian::little ? '<' : '>';
constexpr std::uint64_t kLongestHeader = 1U << 16U;

Error damaged_npy(std::string_view what) {
  return make_error(Code::kDataLoss, what, "; save the array again with numpy.save");
}

/// How the elements of a file become those of a tensor.
struct Layout {
  DType dtype = DType::kUndefined;
  std::size_t item_bytes = 0;  ///< Of one element in the file.
  std::size_t swap_bytes = 1;  ///< Unit whose bytes are reversed; 1: none.
};

struct KnownType {
  char kind;
  std::uint64_t size;
  DType dtype;
};
constexpr KnownType kKnownTypes[] = {
    {'b', 1, DType::kBool}, {'i', 1, DType::kI8},    {'i', 2, DType::kI16},  {'i', 4, DType::kI32},
    {'i', 8, DType::kI64},  {'u', 1, DType::kU8},    {'u', 2, DType::kU16},  {'u', 4, DType::kU32},
    {'u', 8, DType::kU64},  {'f', 2, DType::kF16},   {'f', 4, DType::kF32},  {'f', 8, DType::kF64},
    {'c', 8, DType::kC64},  {'c', 16, DType::kC128}, {'V', 2, DType::kBF16},
};

bool is_8bit_float(DType dtype) {
  return dtype == DType::kF8E4M3FN || dtype == DType::kF8E4M3FNUZ || dtype == DType::kF8E5M2 ||
         dtype == DType::kF8E5M2FNUZ || dtype == DType::kF8E8M0;
}

Error no_counterpart(const NpyDescription& found) {
  if (found.kind == 'O') {
    return invalid_argument(
        "holds pickled Python objects, which are not read: expected numbers, booleans or texts; "
        "convert the array to such a dtype before saving it");
  }
  if (found.kind == 'V' && found.size == 1) {
    return invalid_argument(
        "holds 8-bit values of a type that .npy files cannot name; give them as a .pb file");
  }
  return invalid_argument("holds values of type '", found.kind, found.size,
                          "': expected numbers, booleans or texts");
}

Result<Layout> layout_of(const NpyDescription& found, std::optional<DType> expected) {
  if (found.kind == 'U' || found.kind == 'S') {
    const std::size_t unit = found.kind == 'U' ? 4 : 1;
    if (found.size > kLongestHeader) return no_counterpart(found);
    return Layout{DType::kString, found.size * unit, unit};
  }
  if (found.kind == 'V' && found.size == 1 && expected && is_8bit_float(*expected)) {
    return Layout{*expected, 1, 1};
  }
  for (const auto& known : kKnownTypes) {
    if (known.kind != found.kind || known.size != found.size) continue;
    const std::size_t parts = found.kind == 'c' ? 2 : 1;
    return Layout{known.dtype, found.size, found.size / parts};
  }
  return no_counterpart(found);
}

void reverse_units(std::span<std::byte> bytes, std::size_t unit) {
  for (std::size_t at = 0; at + unit <= bytes.size(); at += unit) {
    std::reverse(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + unit));
  }
}

/// Copies elements from Fortran order (first index fastest) to C order.
void to_c_order(std::span<const std::byte> from, std::span<std::byte> to, std::size_t item,
                const std::vector<std::int64_t>& dims) {
  std::vector<std::size_t> strides(dims.size());
  std::size_t stride = item;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    strides[axis] = stride;
    stride *= static_cast<std::size_t>(dims[axis]);
  }
  std::vector<std::int64_t> at(dims.size(), 0);
  std::size_t source = 0;
  for (std::size_t target = 0; target < to.size(); target += item) {
    std::memcpy(&to[target], &from[source], item);
    for (std::size_t axis = dims.size(); axis-- > 0;) {
      source += strides[axis];
      if (++at[axis] < dims[axis]) break;
      source -= strides[axis] * static_cast<std::size_t>(dims[axis]);
      at[axis] = 0;
    }
  }
}

Status read_elements(const ByteSource& source, const NpyHeader& header, const Layout& layout,
                     std::span<std::byte> target) {
  std::vector<std::byte> unordered;
  const bool reorder = header.fortran_order && header.dims.size() > 1 && !target.empty();
  if (reorder) unordered.resize(target.size());
  const std::span<std::byte> bytes = reorder ? std::span(unordered) : target;
  PENSTOCK_CHECK_OK(source(bytes));
  const char order = header.description.order;
  if (order != kOurOrder && (order == '<' || order == '>')) reverse_units(bytes, layout.swap_bytes);
  if (reorder) to_c_order(unordered, target, layout.item_bytes, header.dims);
  return {};
}

/// Items are padded with zeros at their end.
Result<Tensor> to_strings(std::span<const std::byte> bytes, std::size_t count, const Layout& layout,
                          const NpyHeader& header) {
  std::vector<std::string> texts;
  texts.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const auto item = bytes.subspan(i * layout.item_bytes, layout.item_bytes);
    if (layout.swap_bytes == 1) {
      std::string text(reinterpret_cast<const char*>(item.data()), item.size());
      text.erase(text.find_last_not_of('\0') + 1);
      texts.push_back(std::move(text));
      continue;
    }
    std::u32string wide(item.size() / 4, U'\0');
    if (!item.empty()) std::memcpy(wide.data(), item.data(), item.size());
    wide.erase(wide.find_last_not_of(U'\0') + 1);
    auto text = to_utf8(wide);
    if (!text) return damaged_npy("holds text with a character that Unicode does not have");
    texts.push_back(*std::move(text));
  }
  return Tensor::strings(header.dims, std::move(texts));
}

struct Prefix {
  NpyHeader header;
  std::uint64_t size_bytes = 0;  ///< What stands before the elements.
};

Result<Prefix> read_header(const ByteSource& source, std::uint64_t size_bytes) {
  unsigned char start[12];
  const auto as_bytes = [&](std::size_t from, std::size_t count) {
    return std::as_writable_bytes(std::span(start).subspan(from, count));
  };
  const auto not_npy = [] { return damaged_npy("is not a .npy file: it does not begin as one"); };
  if (size_bytes < 10) return size_bytes == 0 ? damaged_npy("is empty") : not_npy();
  PENSTOCK_CHECK_OK(source(as_bytes(0, 10)));
  if (std::memcmp(start, kMagic.data(), kMagic.size()) != 0) return not_npy();
  const int version = start[6];
  if (version < 1 || version > 3) {
    return invalid_argument("is of .npy version ", version, ": expected 1, 2 or 3");
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  if (size_bytes < 8 + length_bytes) return damaged_npy("is truncated in its header");
  if (length_bytes == 4) PENSTOCK_CHECK_OK(source(as_bytes(10, 2)));
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<std::uint64_t>(start[8 + i]) << (8 * i);
  }
  Prefix prefix;
  prefix.size_bytes = 8 + length_bytes + length;
  if (prefix.size_bytes > size_bytes) return damaged_npy("is truncated in its header");
  if (length > kLongestHeader) {
    return invalid_argument("has a header of ", length, " bytes: expected at most ",
                            kLongestHeader);
  }
  std::string text(length, '\0');
  PENSTOCK_CHECK_OK(source(std::as_writable_bytes(std::span(text))));
  PENSTOCK_TRY(prefix.header, parse_npy_header(text));
  return prefix;
}

/// The number of elements that the header declares, if their bytes can be counted.
Result<std::size_t> declared_elements(const NpyHeader& header, std::size_t item_bytes) {
  std::uint64_t count = 1;
  bool overflow = false;
  bool none = false;
  for (const auto dim : header.dims) {
    none = none || dim == 0;
    overflow |= __builtin_mul_overflow(count, static_cast<std::uint64_t>(dim), &count);
  }
  if (none) return std::size_t{0};
  std::uint64_t bytes = 0;
  overflow |= __builtin_mul_overflow(count, static_cast<std::uint64_t>(item_bytes), &bytes);
  if (overflow || (item_bytes == 0 && count > kLongestHeader)) {
    return make_error(Code::kDataLoss, "declares more elements than any memory holds");
  }
  return static_cast<std::size_t>(count);
}

/// The number of elements, if the file's length is what the header says. Nothing is allocated
/// before this holds.
Result<std::size_t> count_elements(const Prefix& prefix, std::size_t item_bytes,
                                   std::uint64_t size_bytes) {
  PENSTOCK_TRY(const auto count, declared_elements(prefix.header, item_bytes));
  const std::uint64_t expected = count * item_bytes;
  const auto found = size_bytes - prefix.size_bytes;
  if (count > 0 && expected != found) {
    return make_error(Code::kDataLoss, "is ", found < expected ? "truncated" : "too long",
                      ": expected ", counted(expected, "byte"), " after its header, found ", found,
                      "; save the array again with numpy.save");
  }
  return count;
}

Result<Tensor> read_array(const ByteSource& source, std::uint64_t size_bytes,
                          std::optional<DType> expected) {
  PENSTOCK_TRY(const Prefix prefix, read_header(source, size_bytes));
  PENSTOCK_TRY(const Layout layout, layout_of(prefix.header.description, expected));
  PENSTOCK_TRY(const std::size_t count, count_elements(prefix, layout.item_bytes, size_bytes));
  if (layout.dtype == DType::kString) {
    std::vector<std::byte> bytes(count * layout.item_bytes);
    PENSTOCK_CHECK_OK(read_elements(source, prefix.header, layout, bytes));
    return to_strings(bytes, count, layout, prefix.header);
  }
  Tensor tensor = Tensor::allocate(layout.dtype, prefix.header.dims);
  const std::span target(static_cast<std::byte*>(tensor.data()), tensor.bytes());
  PENSTOCK_CHECK_OK(read_elements(source, prefix.header, layout, target));
  return tensor;
}

Result<std::string> description_of(DType dtype) {
  if (is_8bit_float(dtype)) return std::string("|V1");
  for (const auto& known : kKnownTypes) {
    if (known.dtype != dtype) continue;
    return concat(known.size == 1 ? '|' : kOurOrder, known.kind, known.size);
  }
  return invalid_argument("values of type ", to_string(dtype),
                          " have no .npy form; use a .pb file");
}

Status write_strings(const Tensor& tensor, const ByteSink& sink) {
  std::vector<std::u32string> texts;
  std::size_t longest = 1;
  for (const auto& text : tensor.strings()) {
    auto wide = to_utf32(text);
    if (!wide) return invalid_argument("holds text that is not UTF-8; use a .pb file");
    longest = std::max(longest, wide->size());
    texts.push_back(*std::move(wide));
  }
  const std::string header = print_npy_header(concat(kOurOrder, 'U', longest), tensor.dims());
  PENSTOCK_CHECK_OK(sink(std::as_bytes(std::span(header))));
  for (auto& text : texts) {
    text.resize(longest, U'\0');
    PENSTOCK_CHECK_OK(sink(std::as_bytes(std::span(text))));
  }
  return {};
}

Error file_error(int number, std::string_view doing) {
  const Code code = number == ENOENT                      ? Code::kNotFound
                    : number == EACCES || number == EPERM ? Code::kPermissionDenied
                    : number == ENOSPC                    ? Code::kResourceExhausted
                                                          : Code::kUnknown;
  return make_error(code, "cannot be ", doing, ": ",
                    number == 0 ? "the disk may be full" : std::generic_category().message(number),
                    code == Code::kNotFound && doing == "read" ? "; check the path" : "");
}

Result<Tensor> read_file(const fs::path& file, std::optional<DType> expected) {
  std::error_code error;
  if (fs::is_directory(file, error)) return invalid_argument("is a folder: expected a .npy file");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) return file_error(errno, "read");
  const auto size = fs::file_size(file, error);
  if (error) return file_error(error.value(), "read");
  const auto source = [&](std::span<std::byte> bytes) -> Status {
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return in ? Status() : damaged_npy("ends while it is read");
  };
  return read_npy(source, size, expected);
}

Status write_file(const Tensor& tensor, const fs::path& file) {
  errno = 0;
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  if (!out) return file_error(errno, "written");
  PENSTOCK_CHECK_OK(write_npy(tensor, [&](std::span<const std::byte> bytes) -> Status {
    out.write(reinterpret_cast<const char*>(bytes.data()),
              static_cast<std::streamsize>(bytes.size()));
    return {};
  }));
  out.close();
  if (out) return {};
  const int reason = errno;
  remove_part(file);
  return file_error(reason, "written");
}

}  // namespace

Result<Tensor> read_npy(const fs::path& file, std::optional<DType> expected) {
  auto tensor = read_file(file, expected);
  if (!tensor) return std::move(tensor).error().within({Where::kFile, file.string()});
  return tensor;
}

bool has_npy_form(const Tensor& tensor) {
  return tensor.kind() == Tensor::Kind::kStrings ||
         (tensor.kind() == Tensor::Kind::kDense && bits_of(tensor.dtype()) >= 8);
}

Status write_npy(const Tensor& tensor, const fs::path& file) {
  auto status = write_file(tensor, file);
  if (!status) return std::move(status).error().within({Where::kFile, file.string()});
  return status;
}

Result<Tensor> read_npy(const ByteSource& source, std::uint64_t size_bytes,
                        std::optional<DType> expected) {
  try {
    return read_array(source, size_bytes, expected);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kResourceExhausted, "needs more memory than there is");
  }
}

bool may_begin_npy(std::span<const std::byte> start) {
  const auto count = std::min(start.size(), kMagic.size());
  return std::memcmp(start.data(), kMagic.data(), count) == 0;
}

Result<std::uint64_t> npy_bytes(std::span<const std::byte> start, std::optional<DType> expected) {
  constexpr std::uint64_t kShortest = 12;  // No dictionary is shorter than what stands before it.
  std::uint64_t wanted = 0;
  const auto source = [&](std::span<std::byte> bytes) -> Status {
    const auto at = std::exchange(wanted, wanted + bytes.size());
    if (wanted > start.size()) return damaged_npy("ends in its header");
    std::memcpy(bytes.data(), start.data() + at, bytes.size());
    return {};
  };
  if (start.size() < kShortest) return kShortest;
  const auto prefix = read_header(source, UINT64_MAX);
  if (wanted > start.size()) return wanted;
  if (!prefix) return prefix.error();
  PENSTOCK_TRY(const Layout layout, layout_of(prefix->header.description, expected));
  PENSTOCK_TRY(const auto count, declared_elements(prefix->header, layout.item_bytes));
  return prefix->size_bytes + count * layout.item_bytes;
}

Status write_npy(const Tensor& tensor, const ByteSink& sink) {
  if (tensor.kind() == Tensor::Kind::kStrings) return write_strings(tensor, sink);
  if (tensor.kind() != Tensor::Kind::kDense) {
    return invalid_argument("a sequence, map or absent value has no .npy form; use a .pb file");
  }
  PENSTOCK_TRY(const std::string description, description_of(tensor.dtype()));
  const std::string header = print_npy_header(description, tensor.dims());
  PENSTOCK_CHECK_OK(sink(std::as_bytes(std::span(header))));
  return sink({static_cast<const std::byte*>(tensor.data()), tensor.bytes()});
}

}  // namespace penstock
