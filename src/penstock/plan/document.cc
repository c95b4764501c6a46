// Builds the value from nlohmann's events, as its own parser destroys what it built where it fails.
#include "penstock/plan/document.h"

#include <optional>
#include <string>
#include <vector>

#include "penstock/base/nesting.h"

namespace penstock::plan {
namespace {

/// Recurses as deep as the value nests: check_nesting() bounds that.
void make_empty(Json& json) noexcept {
  if (!json.is_structured()) return;
  for (auto& member : json) make_empty(member);
  json.clear();
}

/// The library's text is "[json.exception.parse_error.101] parse error at line 1, column 2: ...".
Error syntax_error(const Json::exception& error) {
  std::string text = error.what();
  if (const auto at = text.find("at line"); at != text.npos) text = text.substr(at);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return {Code::kDataLoss, "not JSON: " + text};
}

class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(Json& root) : root_(root) {}

  [[nodiscard]] const std::optional<Error>& error() const { return error_; }

  bool null() override { return put(nullptr) != nullptr; }
  bool boolean(bool value) override { return put(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return put(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return put(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override {
    return put(value) != nullptr;
  }
  bool string(string_t& value) override { return put(std::move(value)) != nullptr; }
  bool binary(binary_t&) override { return false; }  // Of binary formats only.
  bool start_object(std::size_t) override { return open(Json::value_t::object); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json::value_t::array); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const auto [member, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(name);
    member_ = &member->second;
    if (is_new) return true;
    error_ = Error{Code::kDataLoss, "field '" + name + "' is given twice"};
    return false;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    error_ = syntax_error(error);
    return false;
  }

 private:
  /// \returns where the value lies now: until the list or object that holds it gets another one
  Json* put(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    if (open_.back()->is_array()) return &open_.back()->emplace_back(std::move(value));
    *member_ = std::move(value);
    return member_;
  }
  bool open(Json::value_t type) {
    open_.push_back(put(type));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  Json& root_;
  std::vector<Json*> open_;  // From the root to the list or object that is being read.
  Json* member_ = nullptr;   // Of the innermost object, where the next value goes.
  std::optional<Error> error_;
};

}  // namespace

Result<Document> Document::parse(std::string_view text) {
  PENSTOCK_CHECK_OK(check_nesting(text));
  Document document;
  Builder builder(document.value_);
  Json::sax_parse(text, &builder);
  if (builder.error()) return *builder.error();
  return document;
}

Document::~Document() {
  make_empty(value_);
}

}  // namespace penstock::plan
