// Finds headers without regard to case; makes responses of text, and of errors as JSON.
#include "penstock/http/message.h"

#include <algorithm>

#include <nlohmann/json.hpp>

namespace penstock::http {
namespace {

bool same_letter(char a, char b) {
  const auto lower = [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  };
  return lower(a) == lower(b);
}

}  // namespace

bool same_name(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, same_letter);
}

const std::string* find_header(const std::vector<Header>& headers, std::string_view name) {
  const auto found = std::ranges::find_if(
      headers, [&](const Header& header) { return same_name(header.name, name); });
  return found == headers.end() ? nullptr : &found->value;
}

Response text_response(int status, std::string content_type, std::string text) {
  Response response{.status = status};
  response.headers.push_back({"Content-Type", std::move(content_type)});
  response.body.push_back({.text = std::move(text)});
  return response;
}

Response error_response(int status, const std::string& sentence) {
  // What a client sent may be in the sentence, and need not be UTF-8. An object of JSON would need
  // memory to be destroyed, and end the process where there is none: a string needs none.
  const auto quoted =
      nlohmann::json(sentence).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  auto response = text_response(status, "application/json", "{\"error\":" + quoted + "}");
  response.notes["error"] = sentence;
  return response;
}

}  // namespace penstock::http
