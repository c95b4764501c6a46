// Libraries decode and resize the picture; its bytes are then arranged for the input.
#include "penstock/tensor/image.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "penstock/base/ending.h"
#include "penstock/tensor/exif.h"
#include "penstock/tensor/jpeg.h"
#include "penstock/tensor/pnm.h"

#define STB_IMAGE_STATIC
#define STB_IMAGE_IMPLEMENTATION
#define STBI_NO_STDIO
#define STBI_ONLY_PNG
#define STBI_ONLY_BMP
#define STBI_MAX_DIMENSIONS 32768
#define STB_IMAGE_RESIZE_STATIC
#define STB_IMAGE_RESIZE_IMPLEMENTATION
#include <stb/stb_image.h>
#include <stb/stb_image_resize.h>

namespace penstock {
namespace {

namespace fs = std::filesystem;

constexpr int kLargestSide = 32768;

/// A picture of 8 bits a channel: rows of pixels, channels together.
struct Pixels {
  std::vector<std::uint8_t> bytes;
  int height = 0, width = 0;
};

/// Where an input keeps the parts of a picture.
struct Form {
  std::size_t height = 0, width = 0, channel = 0;  ///< Positions among the dims.
  int channels = 3;
};

bool is_channels(const Dim& dim) {
  return dim.size == 1 || dim.size == 3;
}

Result<Form> form_of(const Type& type) {
  const auto rank = type.dims.size();
  const bool known = type.kind == Type::Kind::kTensor && type.ranked && (rank == 3 || rank == 4) &&
                     (type.dtype == DType::kU8 || type.dtype == DType::kF32);
  const std::size_t first = rank == 4 ? 1 : 0;
  const bool single = known && (rank == 3 || !type.dims[0].fixed() || type.dims[0].size == 1);
  if (single && is_channels(type.dims[first])) {
    return Form{first + 1, first + 2, first, static_cast<int>(type.dims[first].size)};
  }
  if (single && is_channels(type.dims[first + 2])) {
    return Form{first, first + 1, first + 2, static_cast<int>(type.dims[first + 2].size)};
  }
  return invalid_argument("the input takes ", type,
                          ", no picture: expected u8 or f32 of [1,C,H,W] or [1,H,W,C] with 1 or 3 "
                          "channels; give a .npy file instead");
}

Result<std::vector<unsigned char>> read_bytes(const fs::path& file) {
  std::error_code error;
  if (!fs::exists(file, error)) return not_found("no such file");
  if (!fs::is_regular_file(file, error))
    return invalid_argument("expected a picture, not a folder");
  std::ifstream in(file, std::ios::binary);
  if (!in) return make_error(Code::kPermissionDenied, "cannot be read");
  std::vector<unsigned char> bytes(std::istreambuf_iterator<char>(in), {});
  if (bytes.empty()) return make_error(Code::kDataLoss, "is empty; copy or save the picture again");
  if (bytes.size() > INT32_MAX) return invalid_argument("is over 2 GB: expected a picture");
  return bytes;
}

constexpr std::string_view kEndsEarly = "it ends too early";

/// stb's word for why, or plain words where its own say little.
std::string_view failure() {
  const char* reason = stbi_failure_reason();
  const std::string_view said = reason == nullptr ? "" : reason;
  if (said.empty()) return "damaged";
  if (said == "outofdata") return kEndsEarly;
  return said;
}

Error not_decoded(std::string_view why = failure()) {
  return make_error(Code::kDataLoss, "cannot be decoded (", why,
                    "): expected a PNG, JPEG, BMP or binary PPM picture; save it again as one");
}

/// As it is seen. `orientation`: EXIF's; from 5 on, rows are columns.
void turn(const Pixels& from, int orientation, int channels, std::span<std::uint8_t> to) {
  const bool swapped = orientation >= 5;
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const int rows = swapped ? from.width : from.height;
  const int columns = swapped ? from.height : from.width;
  auto at = to.begin();
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const int row = swapped ? x : y, column = swapped ? y : x;
      const auto pixel =
          static_cast<std::ptrdiff_t>(from_bottom ? from.height - 1 - row : row) * from.width +
          (from_right ? from.width - 1 - column : column);
      at = std::copy_n(from.bytes.begin() + pixel * channels, channels, at);
    }
  }
}

/// A picture that is stored in `bytes`. `room`: as decode_image() has it. `read` decodes it as it
/// is stored, of height x width x channels.
Status decode_turned(std::span<const unsigned char> bytes, int height, int width, int channels,
                     const Room& room, const std::function<Status(std::span<std::uint8_t>)>& read) {
  const int orientation = exif_orientation(bytes);
  PENSTOCK_TRY(const auto to, orientation >= 5 ? room(width, height) : room(height, width));
  if (orientation == 1) return read(to);
  Pixels stored{std::vector<std::uint8_t>(to.size()), height, width};
  PENSTOCK_CHECK_OK(read(stored.bytes));
  turn(stored, orientation, channels, to);
  return {};
}

Status decode_jpeg(std::span<const unsigned char> bytes, int channels, const Room& room) {
  PENSTOCK_TRY(auto jpeg, Jpeg::open(bytes));
  return decode_turned(bytes, jpeg.height(), jpeg.width(), channels, room,
                       [&](std::span<std::uint8_t> to) { return jpeg.read(channels, to); });
}

Status decode_pnm(std::span<const unsigned char> bytes, int channels, const Room& room) {
  PENSTOCK_TRY(const auto pnm, Pnm::open(bytes));
  PENSTOCK_TRY(const auto to, room(pnm.height, pnm.width));
  pnm.read(channels, to);
  return {};
}

/// Whether a BMP file has fewer rows than its header says: stb takes what is missing for black.
bool is_cut_off_bmp(std::span<const unsigned char> bytes, int height, int width) {
  constexpr std::size_t kFields = 30, kOldHeader = 12;
  if (bytes[0] != 'B') return false;
  if (bytes.size() < kFields) return true;
  const auto number = [&](std::size_t at, std::size_t count) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < count; ++i) found |= std::size_t{bytes[at + i]} << (8 * i);
    return found;
  };
  const auto begin = number(10, 4), bits = number(number(14, 4) == kOldHeader ? 24 : 28, 2);
  const auto used = (static_cast<std::size_t>(width) * bits + 7) / 8, row = (used + 3) / 4 * 4;
  if (row == 0) return false;
  // The last row need not be filled up.
  return bytes.size() < begin ||
         (bytes.size() - begin + row - used) / row < static_cast<std::size_t>(height);
}

/// By stb: PNG and BMP.
Status decode_other(std::span<const unsigned char> bytes, int channels, const Room& room) {
  int width = 0, height = 0, found = 0;
  const auto size = static_cast<int>(bytes.size());
  if (stbi_info_from_memory(bytes.data(), size, &width, &height, &found) == 0) return not_decoded();
  // A BMP's numbers are its header's: below 0 rows begin at the top.
  if (width <= 0 || height == 0 || height == std::numeric_limits<int>::min()) {
    return not_decoded(concat(height, " rows of ", width, " pixels"));
  }
  height = std::abs(height);
  if (is_cut_off_bmp(bytes, height, width)) return not_decoded(kEndsEarly);
  const auto read = [&](std::span<std::uint8_t> to) -> Status {
    const std::unique_ptr<stbi_uc, decltype(&stbi_image_free)> data(
        stbi_load_from_memory(bytes.data(), size, &width, &height, &found, channels),
        &stbi_image_free);
    if (data == nullptr) return not_decoded();
    std::copy_n(data.get(), to.size(), to.begin());
    return {};
  };
  return decode_turned(bytes, height, width, channels, room, read);
}

Result<std::span<std::uint8_t>> room_in(Pixels& pixels, int height, int width, int channels) {
  if (height > kLargestSide || width > kLargestSide) {
    return make_error(Code::kDataLoss, "expected at most ", kLargestSide,
                      " rows and columns, found ", height, " and ", width);
  }
  pixels.height = height;
  pixels.width = width;
  pixels.bytes.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                      static_cast<std::size_t>(channels));
  return std::span(pixels.bytes);
}

Result<Pixels> resize(Pixels from, int height, int width, int channels) {
  if (from.height == height && from.width == width) return from;
  Pixels to{{}, height, width};
  to.bytes.resize(static_cast<std::size_t>(height) * static_cast<std::size_t>(width) *
                  static_cast<std::size_t>(channels));
  if (to.bytes.empty()) return to;
  const int done = stbir_resize_uint8(from.bytes.data(), from.width, from.height, 0,
                                      to.bytes.data(), width, height, 0, channels);
  if (done == 0) return make_error(Code::kResourceExhausted, "cannot be resized: out of memory");
  return to;
}

template <typename T>
void place(const Pixels& pixels, const Form& form, T scale, std::span<T> target) {
  const auto channels = static_cast<std::size_t>(form.channels);
  const auto count = pixels.bytes.size() / channels;
  const bool channels_first = form.channel < form.height;
  for (std::size_t i = 0; i < pixels.bytes.size(); ++i) {
    const auto at = channels_first ? i % channels * count + i / channels : i;
    target[at] = static_cast<T>(static_cast<T>(pixels.bytes[i]) * scale);
  }
}

Result<int> size_of(const Dim& dim, int own) {
  if (dim.fixed() && dim.size > kLargestSide) {
    return invalid_argument("the input's ", dim.size, " pixels are over ", kLargestSide,
                            "; give a .npy file instead");
  }
  if (dim.fixed()) return static_cast<int>(dim.size);
  if (dim.bound != Dim::kOpen && own > dim.bound) {
    return invalid_argument("its ", own, " pixels are over the input's bound of ", dim.bound,
                            "; make it smaller, or declare a larger bound");
  }
  return own;
}

Result<Tensor> read_picture(const fs::path& file, const Type& type) {
  PENSTOCK_TRY(const Form form, form_of(type));
  PENSTOCK_TRY(const auto bytes, read_bytes(file));
  Pixels pixels;
  PENSTOCK_CHECK_OK(decode_image(bytes, form.channels, [&](int height, int width) {
    return room_in(pixels, height, width, form.channels);
  }));
  PENSTOCK_TRY(const int height, size_of(type.dims[form.height], pixels.height));
  PENSTOCK_TRY(const int width, size_of(type.dims[form.width], pixels.width));
  PENSTOCK_TRY(pixels, resize(std::move(pixels), height, width, form.channels));
  std::vector<std::int64_t> dims(type.dims.size(), 1);
  dims[form.height] = height;
  dims[form.width] = width;
  dims[form.channel] = form.channels;
  Tensor tensor = Tensor::allocate(type.dtype, std::move(dims));
  if (type.dtype == DType::kU8) {
    place<std::uint8_t>(pixels, form, 1, tensor.as<std::uint8_t>());
  } else {
    place<float>(pixels, form, 1.0F / 255.0F, tensor.as<float>());
  }
  return tensor;
}

}  // namespace

Result<Tensor> read_image(const fs::path& file, const Type& type) {
  try {
    auto tensor = read_picture(file, type);
    if (!tensor) return std::move(tensor).error().within({Where::kPicture, file.string()});
    return tensor;
  } catch (const std::bad_alloc&) {
    return make_error(Code::kResourceExhausted, "needs more memory than there is")
        .within({Where::kPicture, file.string()});
  }
}

Status decode_image(std::span<const std::uint8_t> bytes, int channels, const Room& room) {
  if (bytes.size() > INT32_MAX) return invalid_argument("is over 2 GB: expected a picture");
  try {
    if (is_jpeg(bytes)) return decode_jpeg(bytes, channels, room);
    if (is_pnm(bytes)) return decode_pnm(bytes, channels, room);
    return decode_other(bytes, channels, room);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kResourceExhausted, "needs more memory than there is");
  }
}

bool has_image_suffix(const fs::path& file) {
  constexpr std::array<std::string_view, 6> kSuffixes = {".png", ".jpg", ".jpeg",
                                                         ".bmp", ".ppm", ".pgm"};
  return std::ranges::find(kSuffixes, ending_of(file)) != kSuffixes.end();
}

}  // namespace penstock
