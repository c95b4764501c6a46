// Paths inside a package: relative, with '/', never leading outside.
#pragma once

#include <string_view>

namespace penstock::plan {

/// What is wrong with `path` as a path inside a package ("leads outside the package"), or empty.
std::string_view path_problem(std::string_view path);

}  // namespace penstock::plan
