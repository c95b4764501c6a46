// What a misspelt name may have meant.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// "; did you mean 'conv1' or 'conv12'?": of `names` the three nearest to `text`. Empty: none is
/// near.
std::string did_you_mean(std::string_view text, const std::vector<std::string>& names);

}  // namespace penstock
