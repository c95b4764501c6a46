// Text that came from elsewhere, such as a node's name, as a terminal may have it.
#pragma once

#include <string>
#include <string_view>

namespace penstock {

/// With control characters as C would write them: "\n", "\t", "\x1b". Others stand as they are,
/// a backslash and what is no UTF-8 too: the result is for people, and is not read back.
std::string printable(std::string_view text);

}  // namespace penstock
