// Looks for bytes under 32, DEL, and the two bytes that UTF-8 has for U+0080 to U+009F.
#include "penstock/base/printable.h"

#include <cstddef>

namespace penstock {
namespace {

std::string escape_of(unsigned char byte) {
  constexpr std::string_view kNibbles = "0123456789abcdef";
  switch (byte) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return {'\\', 'x', kNibbles[byte >> 4U], kNibbles[byte & 15U]};
  }
}

}  // namespace

std::string printable(std::string_view text) {
  constexpr unsigned char kDelete = 0x7f, kLead = 0xc2, kFirst = 0x80, kLast = 0x9f;
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == kLead && next >= kFirst && next <= kLast) {
      out += escape_of(static_cast<unsigned char>(next));
      ++i;
    } else if (byte < ' ' || byte == kDelete) {
      out += escape_of(byte);
    } else {
      out += text[i];
    }
  }
  return out;
}

}  // namespace penstock
