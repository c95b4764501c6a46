// What is known of the terminal that a file descriptor is, and the text that fits it.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>

namespace penstock::cli {

struct TerminalSize {
  std::size_t columns = 80;
  std::size_t rows = 24;
};

[[nodiscard]] bool is_terminal(std::FILE* file);
/// Whether it also obeys escape codes: TERM=dumb says that it does not.
[[nodiscard]] bool obeys_escapes(std::FILE* file);
/// As it is now; 80 by 24 where nobody knows.
[[nodiscard]] TerminalSize size_of_terminal(std::FILE* file);

/// How many columns a terminal takes for UTF-8: two for a character of three bytes or more, which
/// is too much for some and too little for none.
[[nodiscard]] std::size_t columns_of(std::string_view text);
/// As much of the beginning as has no more than `columns`.
[[nodiscard]] std::string cut_to(std::string_view text, std::size_t columns);
/// The same words in lines of no more than `columns`, of which the later ones of a line are
/// indented by two; a word that is longer is broken. \pre  columns >= 4
[[nodiscard]] std::string wrapped(std::string_view text, std::size_t columns);

}  // namespace penstock::cli
