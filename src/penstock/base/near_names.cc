// Takes names near by Levenshtein's distance or with the text inside them, three at most.
#include "penstock/base/near_names.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <system_error>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/base/folder.h"

namespace penstock {
namespace {

/// Levenshtein's distance, or more than `limit` as soon as it is known to be.
std::size_t edit_distance(std::string_view a, std::string_view b, std::size_t limit) {
  if (std::max(a.size(), b.size()) - std::min(a.size(), b.size()) > limit) return limit + 1;
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    std::size_t least = row[0];
    for (std::size_t j = 0; j < b.size(); ++j) {
      const auto replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
      least = std::min(least, row[j + 1]);
    }
    if (least > limit) return limit + 1;
  }
  return row.back();
}

/// Of the text so many characters say something.
std::string did_you_mean(std::string_view text, const std::vector<std::string>& names,
                         std::size_t telling) {
  constexpr std::size_t kMost = 3;
  const auto limit = std::max<std::size_t>(2, telling / 3);
  std::vector<std::pair<std::size_t, std::string>> found;
  for (const auto& name : names) {
    const bool inside = text.size() >= 3 && name.find(text) != name.npos;
    const auto distance = edit_distance(text, name, limit);
    if (distance <= limit || inside) found.emplace_back(distance, concat("'", name, "'"));
  }
  std::ranges::stable_sort(found, {}, &std::pair<std::size_t, std::string>::first);
  std::vector<std::string> nearest;
  for (auto& [distance, name] : found) {
    if (nearest.size() < kMost && std::ranges::find(nearest, name) == nearest.end()) {
      nearest.push_back(std::move(name));
    }
  }
  return nearest.empty() ? std::string() : "; did you mean " + join(nearest, " or ") + "?";
}

}  // namespace

std::string did_you_mean(std::string_view text, const std::vector<std::string>& names) {
  const auto dashes = std::min(text.find_first_not_of('-'), text.size());
  return did_you_mean(text, names, text.size() - dashes);
}

std::string did_you_mean_file(const std::filesystem::path& file) {
  if (file.empty()) return "; the path is empty";
  constexpr std::size_t kMost = 1000;  // A folder of a million pictures is not read for a hint.
  std::error_code ignored;
  auto names = names_in(file.parent_path(), ignored, kMost);
  std::ranges::sort(names);
  return did_you_mean(file.filename().string(), names, file.stem().string().size());
}

}  // namespace penstock
