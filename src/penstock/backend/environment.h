// The process's environment, for engines that read settings from nowhere else.
#pragma once

#include <string>

namespace penstock::backend {

/// Adds the variable unless it is there; what the user has set stays.
///
/// \threads  any, beside threads that call getenv(): setenv() may free what they read, this leaves
///           it as it is for ever. Not beside one that changes the environment otherwise, as ever.
void add_to_environment(const std::string& name, const std::string& value);

}  // namespace penstock::backend
