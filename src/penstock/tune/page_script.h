// The program of the page, bundled from web/ when the library is built.
#pragma once

#include <string>

namespace penstock::tune {

/// ASCII, without an end of a script element in it.
std::string page_script();

}  // namespace penstock::tune
