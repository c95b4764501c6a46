// Reads the header's numbers, which comments may part, and scales those behind it.
#include "penstock/tensor/pnm.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string_view>

namespace penstock {
namespace {

using Bytes = std::span<const unsigned char>;

Error not_read(std::string_view why) {
  return make_error(Code::kDataLoss, "cannot be decoded (", why,
                    "): expected a whole PGM or PPM picture; save it again as one");
}

/// The next number of the header, behind white space and comments, which are left out of `rest`;
/// 0: there is none.
unsigned take_number(Bytes& rest) {
  constexpr unsigned kMost = 1U << 24U;
  bool comment = false;
  while (!rest.empty() && (comment || rest[0] == '#' || std::isspace(rest[0]) != 0)) {
    comment = (comment || rest[0] == '#') && rest[0] != '\n' && rest[0] != '\r';
    rest = rest.subspan(1);
  }
  unsigned number = 0;
  while (!rest.empty() && std::isdigit(rest[0]) != 0 && number <= kMost) {
    number = number * 10 + (rest[0] - '0');
    rest = rest.subspan(1);
  }
  return number;
}

/// As bright as the eye sees them together.
std::uint8_t grey_of(const std::array<unsigned, 3>& pixel) {
  return static_cast<std::uint8_t>((77 * pixel[0] + 150 * pixel[1] + 29 * pixel[2]) >> 8U);
}

}  // namespace

bool is_pnm(Bytes bytes) {
  return bytes.size() > 1 && bytes[0] == 'P' && (bytes[1] == '5' || bytes[1] == '6');
}

Result<Pnm> Pnm::open(Bytes bytes) {
  constexpr unsigned kMostSize = 1U << 24U, kMostNumber = 65535;
  auto rest = bytes.subspan(2);
  const auto width = take_number(rest), height = take_number(rest), most = take_number(rest);
  if (rest.empty()) return not_read("it ends too early");
  const bool sized = width > 0 && height > 0 && width <= kMostSize && height <= kMostSize;
  if (!sized || most == 0 || most > kMostNumber || std::isspace(rest[0]) == 0) {
    return not_read("its header is damaged");
  }
  Pnm pnm{static_cast<int>(height), static_cast<int>(width), bytes[1] == '6' ? 3 : 1, most,
          rest.subspan(1)};
  const auto wanted =
      std::size_t{height} * width * static_cast<std::size_t>(pnm.colours) * (most > 255 ? 2U : 1U);
  if (pnm.numbers.size() < wanted) return not_read("it ends too early");
  return pnm;
}

void Pnm::read(int channels, std::span<std::uint8_t> to) const {
  constexpr std::uint8_t kOpaque = 255;
  const auto count = static_cast<std::size_t>(colours), wide = std::size_t{most > 255 ? 2U : 1U};
  auto from = numbers.begin();
  const auto number = [&] {
    unsigned found = *from++;
    if (wide == 2) found = found << 8U | *from++;
    return (std::min(found, most) * 255 + most / 2) / most;
  };
  for (auto at = to.begin(); at != to.end();) {
    std::array<unsigned, 3> pixel{};
    for (std::size_t i = 0; i < count; ++i) pixel.at(i) = number();
    if (count == 1) pixel.fill(pixel[0]);
    if (channels <= 2) *at++ = count == 1 ? static_cast<std::uint8_t>(pixel[0]) : grey_of(pixel);
    if (channels > 2)
      at = std::ranges::transform(pixel, at, [](unsigned x) {
             return static_cast<std::uint8_t>(x);
           }).out;
    if (channels % 2 == 0) *at++ = kOpaque;
  }
}

}  // namespace penstock
