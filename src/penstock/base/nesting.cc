// Counts the brackets that are open outside of strings, in one pass and without recursion.
#include "penstock/base/nesting.h"

#include <algorithm>

namespace penstock {

Status check_nesting(std::string_view json) {
  int open = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char letter = json[i];
    if (in_string) {
      i += letter == '\\' ? 1 : 0;  // What follows is escaped.
      in_string = letter != '"';
    } else if (letter == '"') {
      in_string = true;
    } else if (letter == '[' || letter == '{') {
      ++open;
    } else if (letter == ']' || letter == '}') {
      --open;
    }
    if (open <= kMostNested) continue;
    const auto before = json.substr(0, i);
    const auto line_begin = before.rfind('\n') == before.npos ? 0 : before.rfind('\n') + 1;
    return make_error(Code::kDataLoss, "at line ", std::ranges::count(before, '\n') + 1,
                      ", column ", i - line_begin + 1, ": expected at most ", kMostNested,
                      " brackets inside one another");
  }
  return {};
}

}  // namespace penstock
