// Encodes and decodes by hand; refuses overlong forms, surrogates and what exceeds U+10FFFF.
#include "penstock/tensor/utf.h"

#include <cstddef>

namespace penstock {
namespace {

bool is_character(char32_t c) {
  return c < 0xD800 || (c > 0xDFFF && c <= 0x10FFFF);
}

void append(std::string& text, char32_t c) {
  const auto tail = [&](unsigned shift) {
    text += static_cast<char>(0x80U | (c >> shift & 0x3FU));
  };
  if (c < 0x80) {
    text += static_cast<char>(c);
  } else if (c < 0x800) {
    text += static_cast<char>(0xC0U | c >> 6U);
    tail(0);
  } else if (c < 0x10000) {
    text += static_cast<char>(0xE0U | c >> 12U);
    tail(6);
    tail(0);
  } else {
    text += static_cast<char>(0xF0U | c >> 18U);
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Bytes of the character that begins with `lead`; 0 if none does.
std::size_t length_of(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;
  return lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
}

}  // namespace

std::optional<std::string> to_utf8(std::u32string_view text) {
  std::string result;
  for (const char32_t c : text) {
    if (!is_character(c)) return std::nullopt;
    append(result, c);
  }
  return result;
}

std::optional<std::u32string> to_utf32(std::string_view text) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};  // By length: no overlong forms.
  std::u32string result;
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const auto length = length_of(lead);
    if (length == 0 || length > text.size()) return std::nullopt;
    char32_t c = length == 1 ? lead : lead & (0x7FU >> length);
    for (std::size_t i = 1; i < length; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if ((byte & 0xC0U) != 0x80U) return std::nullopt;
      c = c << 6U | (byte & 0x3FU);
    }
    if (!is_character(c) || c < kSmallest[length]) return std::nullopt;
    result += c;
    text.remove_prefix(length);
  }
  return result;
}

bool is_utf8(std::string_view text) {
  return to_utf32(text).has_value();
}

}  // namespace penstock
