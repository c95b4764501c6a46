// Reads yaml-cpp's nodes, checks types and ranges, and explains text that is no YAML.
#include "penstock/yaml/field.h"

#include <cmath>
#include <exception>
#include <fstream>
#include <set>

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include "penstock/base/near_names.h"
#include "penstock/tensor/utf.h"

namespace penstock::yaml {
namespace {

namespace fs = std::filesystem;

int line_of(const YAML::Mark& mark) {
  return mark.is_null() ? 0 : mark.line + 1;
}

/// As parse_literal() reads a text whatever stands in it.
std::string quoted(const std::string& text) {
  std::string all = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') all += '\\';
    all += c;
  }
  return all + "\"";
}

bool begins_with(const fs::path& path, const fs::path& folder) {
  return std::ranges::mismatch(folder, path).in1 == folder.end();
}

/// Whether `text`, taken from the folder `from` on, is a file or folder of `folder`. What the text
/// alone shows to lead out is not looked for: how long that takes would tell of it.
bool is_there_within(const fs::path& folder, const fs::path& from, const std::string& text) {
  const fs::path path(text);
  const auto straight = (from.lexically_relative(folder) / path).lexically_normal();
  if (path.is_absolute() || straight.empty() || *straight.begin() == "..") return false;
  if (text.find('\0') != std::string::npos) return false;
  std::error_code error;
  const auto found = fs::canonical(from / path, error);
  if (error) return false;
  const auto home = fs::canonical(folder, error);
  return !error && begins_with(found, home);
}

}  // namespace

Field::Field(const YAML::Node& value, int line, std::string path, const Document* document,
             std::optional<Error>* error)
    : value_(std::make_shared<const YAML::Node>(value)),
      line_(line),
      path_(std::move(path)),
      document_(document),
      error_(error) {}

std::vector<Where> Field::place() const {
  std::vector<Where> place{{Where::kFile, document_->name}};
  if (line_ > 0) place.emplace_back(Where::kLine, line_);
  return place;
}

void Field::fail(const std::string& what, Code code) const {
  if (*error_) return;
  *error_ = make_error(code, path_, path_.empty() ? "" : ": ", what).within(place());
}

void Field::fail_expected(std::string_view expected) const {
  fail(concat("expected ", expected, ", found ", shown()));
}

bool Field::is_nothing() const {
  return value_->IsNull();
}

bool Field::is_mapping() const {
  return value_->IsMap();
}

bool Field::is_list() const {
  return value_->IsSequence();
}

std::string Field::scalar() const {
  return value_->IsScalar() ? value_->Scalar() : "";
}

std::string Field::string() const {
  if (value_->IsScalar()) return value_->Scalar();
  return fail_expected("a text"), std::string();
}

std::string Field::literal() const {
  if (value_->IsScalar()) return value_->Scalar();
  if (!is_list()) return fail_expected("a value or a list of values"), std::string();
  std::vector<std::string> items;
  each([&](const Field& item) {
    items.push_back(item.is_list() ? item.literal() : quoted(item.literal()));
  });
  return "[" + join(items, ", ") + "]";
}

bool Field::boolean() const {
  bool value = false;
  if (!value_->IsScalar() || !YAML::convert<bool>::decode(*value_, value)) {
    fail_expected("true or false");
  }
  return value;
}

double Field::positive() const {
  double value = 0;
  constexpr double kMost = 1e12;
  if (!value_->IsScalar() || !YAML::convert<double>::decode(*value_, value) || std::isnan(value) ||
      value < 0.001 || value > kMost) {
    fail_expected("a number from 0.001 to 1e12");
    return 1;
  }
  return value;
}

int Field::integer(int lowest, int highest) const {
  int value = 0;
  if (!value_->IsScalar() || !YAML::convert<int>::decode(*value_, value) || value < lowest ||
      value > highest) {
    fail_expected(concat("an integer from ", lowest, " to ", highest));
    return lowest;
  }
  return value;
}

std::vector<std::string> Field::strings() const {
  std::vector<std::string> list;
  each([&](const Field& item) { list.push_back(item.string()); });
  return list;
}

fs::path Field::existing_path() const {
  const auto text = string();
  const auto from = document_->file.parent_path();
  auto path = from / text;
  if (!*error_ && !document_->folder.empty() && !is_there_within(document_->folder, from, text)) {
    fail_expected("a file that was sent with it");
  }
  std::error_code ignored;
  if (!*error_ && !fs::exists(path, ignored)) {
    fail("no such file: '" + path.string() + "'", Code::kNotFound);
  }
  return path;
}

void Field::only(std::initializer_list<std::string_view> names) const {
  each_named([&](const std::string& name, const Field&) {
    if (std::ranges::find(names, name) != names.end()) return;
    for (const auto& pair : *value_) {
      if (pair.first.Scalar() != name) continue;
      Field(pair.first, line_of(pair.first.Mark()), path_of(name), document_, error_)
          .fail(concat("unknown field; expected one of ", join(names, ", "),
                       did_you_mean(name, {names.begin(), names.end()})));
    }
  });
}

std::optional<Field> Field::find(std::string_view name) const {
  if (!value_->IsMap()) return std::nullopt;
  const YAML::Node found = (*value_)[std::string(name)];
  if (!found.IsDefined()) return std::nullopt;
  return Field(found, line_of(found.Mark()), path_of(name), document_, error_);
}

std::vector<Field> Field::items() const {
  std::vector<Field> items;
  if (!value_->IsSequence()) return fail_expected("a list"), items;
  for (std::size_t i = 0; i < value_->size(); ++i) {
    const YAML::Node item = (*value_)[i];
    items.push_back(
        Field(item, line_of(item.Mark()), concat(path_, "[", i, "]"), document_, error_));
  }
  return items;
}

std::vector<std::pair<std::string, Field>> Field::named() const {
  std::vector<std::pair<std::string, Field>> fields;
  if (!value_->IsMap()) return fail_expected("a mapping of names"), fields;
  std::set<std::string> seen;
  for (const auto& pair : *value_) {
    const Field name(pair.first, line_of(pair.first.Mark()), path_, document_, error_);
    if (!pair.first.IsScalar()) return name.fail_expected("a name"), fields;
    const auto& key = pair.first.Scalar();
    if (!seen.insert(key).second) return name.fail("'" + key + "' is there twice"), fields;
    // A scalar may stand lines below its name, as blocks of text do; all else begins at its name.
    const auto mark = pair.second.IsScalar() ? pair.second.Mark() : pair.first.Mark();
    fields.emplace_back(key, Field(pair.second, line_of(mark), path_of(key), document_, error_));
  }
  return fields;
}

std::string Field::path_of(std::string_view name) const {
  return path_.empty() ? std::string(name) : concat(path_, ".", name);
}

std::string Field::shown() const {
  constexpr std::size_t kMost = 60;
  if (value_->IsMap()) return "a mapping";
  if (value_->IsSequence()) return "a list";
  if (!value_->IsScalar()) return "nothing";
  const auto& text = value_->Scalar();
  return "'" + (text.size() > kMost ? text.substr(0, kMost) + "..." : text) + "'";
}

namespace {

/// One line of the library's own words.
std::string one_line(std::string text) {
  std::ranges::replace_if(text, [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

/// The first line that is not UTF-8, counted from 1.
std::optional<int> find_other_text(const fs::path& file) {
  std::ifstream in(file);
  std::string line;
  for (int i = 1; std::getline(in, line); ++i) {
    if (!is_utf8(line)) return i;
  }
  return std::nullopt;
}

/// Whether a line up to the given one, counted from 0, is indented with a tab.
bool tab_indents(const fs::path& file, int last) {
  std::ifstream in(file);
  std::string line;
  for (int i = 0; i <= last && std::getline(in, line); ++i) {
    if (line.substr(0, line.find_first_not_of(" \t")).find('\t') != line.npos) return true;
  }
  return false;
}

/// What people write that is no YAML.
std::string_view advice(const fs::path& file, const YAML::Exception& error) {
  if (tab_indents(file, error.mark.line)) return "; indent with spaces, not tabs";
  if (error.msg.find("flow") == std::string::npos) {
    const bool uneven =
        error.msg == "end of map not found" || error.msg == "end of sequence not found";
    return uneven ? "; what belongs together begins in one column: look at the spaces before this "
                    "line and the last"
                  : "";
  }
  // `{x: f32[4]}`, whose bracket ends nothing.
  return "; within { } and [ ], a text with brackets or commas needs quotes: {x: 'f32[4]'}";
}

}  // namespace

Status read_document(const fs::path& file, std::string_view what,
                     const std::function<void(const Field&)>& read, const fs::path& folder) {
  const auto name = file.string();
  const auto line = [&](int number) {
    return std::vector<Where>{{Where::kFile, name}, {Where::kLine, number}};
  };
  try {
    std::error_code ignored;
    if (fs::is_directory(file, ignored)) {
      return invalid_argument("expected a file, found a folder").within({Where::kFile, name});
    }
    if (!fs::is_regular_file(file, ignored)) {
      return not_found("no such file").within({Where::kFile, name});
    }
    if (const auto other = find_other_text(file)) {
      return invalid_argument("expected text in UTF-8, found other bytes; save the file so")
          .within(line(*other));
    }
    const auto documents = YAML::LoadAllFromFile(name);
    if (documents.size() > 1) {
      return invalid_argument("expected one ", what, " in a file, found another document")
          .within(line(documents[1].Mark().line + 1));
    }
    const auto top = documents.empty() ? YAML::Node() : documents.front();
    const Field::Document document{file, name, folder};
    std::optional<Error> error;
    read(Field(top, line_of(top.Mark()), "", &document, &error));
    if (error) return *std::move(error);
    return {};
  } catch (const YAML::DeepRecursion& e) {
    return invalid_argument("expected at most ", e.depth(),
                            " levels inside one another; mend the file")
        .within(line(e.mark.line + 1));
  } catch (const YAML::Exception& e) {
    return invalid_argument("not YAML: ", one_line(e.msg), advice(file, e))
        .within(line(e.mark.line + 1));
  } catch (const std::exception& e) {
    return invalid_argument("cannot be read: ", one_line(e.what())).within({Where::kFile, name});
  }
}

}  // namespace penstock::yaml
