// Asks the system for the size, and counts columns by the first bytes of characters.
#include "penstock/cli/terminal.h"

#include <algorithm>
#include <cstdlib>

#include <sys/ioctl.h>
#include <unistd.h>

namespace penstock::cli {
namespace {

std::size_t columns_of_byte(char byte) {
  constexpr unsigned kFollows = 0x80, kLongest = 0xC0, kThree = 0xE0;
  const auto value = static_cast<unsigned char>(byte);
  if (value >= kFollows && value < kLongest) return 0;
  return value >= kThree ? 2 : 1;
}

/// How many bytes of the beginning have no more than `columns`.
std::size_t fitting(std::string_view text, std::size_t columns) {
  std::size_t used = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    used += columns_of_byte(text[i]);
    if (used > columns) return i;
  }
  return text.size();
}

std::string wrapped_line(std::string_view line, std::size_t columns) {
  std::string text;
  std::string indent;
  for (;;) {
    const auto fits = std::max<std::size_t>(1, fitting(line, columns - indent.size()));
    if (fits >= line.size()) return text + indent + std::string(line);
    // At the last space that leaves something before it, which is not the line's own indentation.
    const auto begin = std::min(line.find_first_not_of(' '), line.size());
    const auto space = line.substr(0, fits + 1).rfind(' ');
    const bool at_space = space != std::string_view::npos && space > begin;
    const auto end = at_space ? space : fits;
    text += indent + std::string(line.substr(0, end)) + '\n';
    line.remove_prefix(at_space ? end + 1 : end);
    indent = "  ";
  }
}

}  // namespace

bool is_terminal(std::FILE* file) {
  return ::isatty(::fileno(file)) == 1;
}

bool obeys_escapes(std::FILE* file) {
  const char* const kind = std::getenv("TERM");
  return is_terminal(file) && (kind == nullptr || std::string_view(kind) != "dumb");
}

TerminalSize size_of_terminal(std::FILE* file) {
  ::winsize size = {};
  TerminalSize known;
  if (::ioctl(::fileno(file), TIOCGWINSZ, &size) != 0) return known;
  if (size.ws_col > 0) known.columns = size.ws_col;
  if (size.ws_row > 0) known.rows = size.ws_row;
  return known;
}

std::size_t columns_of(std::string_view text) {
  std::size_t columns = 0;
  for (const char byte : text) columns += columns_of_byte(byte);
  return columns;
}

std::string cut_to(std::string_view text, std::size_t columns) {
  return std::string(text.substr(0, fitting(text, columns)));
}

std::string wrapped(std::string_view text, std::size_t columns) {
  std::string lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines += wrapped_line(text.substr(0, end), columns) + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace penstock::cli
