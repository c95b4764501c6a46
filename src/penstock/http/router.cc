// Compares percent-decoded paths segment by segment; answers 400, 404 or 405 where none fits.
#include "penstock/http/router.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "penstock/base/error.h"

namespace penstock::http {
namespace {

std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  if (path.starts_with('/')) path.remove_prefix(1);
  if (path.ends_with('/')) path.remove_suffix(1);
  while (true) {
    const auto slash = path.find('/');
    segments.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool is_name(std::string_view segment) {
  return segment.starts_with('{');
}

bool fits(const Route& route, const std::vector<std::string>& segments) {
  return std::ranges::equal(route.segments, segments, [](const auto& expected, const auto& found) {
    return is_name(expected) ? !found.empty() : expected == found;
  });
}

std::map<std::string, std::string> captured_by(const Route& route,
                                               const std::vector<std::string>& segments) {
  std::map<std::string, std::string> captured;
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const auto& name = route.segments[i];
    if (is_name(name)) captured[name.substr(1, name.size() - 2)] = segments[i];
  }
  return captured;
}

}  // namespace

std::optional<std::string> percent_decoded(std::string_view text) {
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    unsigned char byte = 0;
    if (i + 2 >= text.size()) return std::nullopt;
    const auto* end = text.data() + i + 3;
    const auto [at, failed] = std::from_chars(end - 2, end, byte, 16);
    if (failed != std::errc() || at != end) return std::nullopt;
    decoded += static_cast<char>(byte);
    i += 2;
  }
  return decoded;
}

void Router::add(std::string method, std::string_view pattern, Gate gate, Handler handler) {
  routes_.push_back({std::move(method), segments_of(pattern), std::move(gate), std::move(handler)});
}

Router::Found Router::find(std::string_view method, std::string_view path) const {
  auto segments = segments_of(path);
  for (auto& segment : segments) {
    auto decoded = percent_decoded(segment);
    if (!decoded) {
      return {.response = error_response(
                  400, concat("the path '", path, "' has a '%' without two hexadecimal digits"))};
    }
    segment = *std::move(decoded);
  }
  std::string allowed;
  for (const auto& route : routes_) {
    if (!fits(route, segments)) continue;
    if (route.method == method || (method == "HEAD" && route.method == "GET")) {
      return {.route = &route, .captured = captured_by(route, segments)};
    }
    allowed += (allowed.empty() ? "" : ", ") + route.method;
    if (route.method == "GET") allowed += ", HEAD";
  }
  if (allowed.empty()) return {.response = error_response(404, "Not Found")};
  auto response =
      error_response(405, concat("expected ", allowed, " for '", path, "', found ", method));
  response.headers.push_back({"Allow", std::move(allowed)});
  return {.response = std::move(response)};
}

}  // namespace penstock::http
