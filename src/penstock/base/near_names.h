// What a misspelt name may have meant.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace penstock {

/// "; did you mean 'conv1' or 'conv12'?": of `names` the three nearest to `text`. Empty: none is
/// near.
std::string did_you_mean(std::string_view text, const std::vector<std::string>& names);
/// Likewise of a file that is not there: others of its folder; of an empty path, that it is empty.
std::string did_you_mean_file(const std::filesystem::path& file);

}  // namespace penstock
