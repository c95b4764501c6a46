// The program of web/ with data, as one HTML page that stands alone.
#pragma once

#include <string>
#include <string_view>

namespace penstock::tune {

/// `what` it is, of the `name`: the title. `id` says to the program what the JSON is: "report", or
/// "live". `without` is what a browser shows that runs no programs.
struct PageText {
  std::string name, what, without, id, json;
};
std::string make_page(const PageText& text);

}  // namespace penstock::tune
