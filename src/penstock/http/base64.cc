// Decodes strictly: text of another length than a multiple of four or of other letters is refused.
#include "penstock/http/base64.h"

namespace penstock::http {
namespace {

std::optional<unsigned> sextet_of(char c) {
  constexpr std::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const auto at = kAlphabet.find(c);
  if (at == std::string_view::npos) return std::nullopt;
  return static_cast<unsigned>(at);
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  unsigned held = 0;
  int bits = 0;
  for (const char c : text) {
    const auto sextet = sextet_of(c);
    if (!sextet) return std::nullopt;
    held = (held << 6U) | *sextet;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>((held >> static_cast<unsigned>(bits)) & 0xFFU);
  }
  return bytes;
}

}  // namespace penstock::http
