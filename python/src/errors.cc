#include "errors.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

namespace penstock::python {
namespace {

/// What the library's messages call as the command line does, and its name in Python.
constexpr std::array<std::array<std::string_view, 2>, 19> kNames{{
    {"--no-native-code, in Python native_code=False", "native_code=False"},
    {"--no-native-code", "native_code=False"},
    {"--custom-ops", "custom_ops="},
    {"--parameter:", "parameters:"},
    {"--constant", "constants"},
    {"--state", "states"},
    {"--shape", "shapes"},
    {"--as-is", "as_is=True"},
    {"(--input)", "(frames=)"},
    {"(--devices)", "(devices=)"},
    {"(max_run)", "(max_run_ms)"},
    {"the program that runs the pipeline registers them",
     "give it by functions=[penstock.Function(name, call, inputs, outputs)]"},
    {"--model:", "model:"},
    {"--optimised:", "optimised:"},
    {"save_stream:", "stream_of(n).save():"},
    {"restore_stream:", "stream_of(n).restore():"},
    {"reset_stream:", "stream_of(n).reset():"},
    {"end_stream:", "stream_of(n).end():"},
    {"(end_stream)", "(stream_of(n).end())"},
}};

std::string in_python(const Error& error, std::string sentence) {
  if (error.code == Code::kUnknown) return sentence;  // The user's own words.
  std::string text;
  const auto joins = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
  bool quoted = false;  // A name or a path: the user's own words too.
  for (std::string_view rest = sentence; !rest.empty();) {
    const auto found = std::ranges::find_if(
        kNames, [&](const auto& pair) { return !quoted && rest.starts_with(pair[0]); });
    if (rest.front() == '\'') {  // Or, between letters, an apostrophe.
      quoted = quoted ? rest.size() > 1 && joins(rest[1]) : text.empty() || !joins(text.back());
    }
    text += found == kNames.end() ? rest.substr(0, 1) : (*found)[1];
    rest.remove_prefix(found == kNames.end() ? 1 : (*found)[0].size());
  }
  return text;
}

nb::str str_of(std::string_view text) {
  return nb::str(text.data(), text.size());
}

/// Names of tensors and files may be any bytes.
nb::object shown(const std::string& text) {
  nb::object object =
      nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
  if (!object.is_valid()) throw nb::python_error();
  return object;
}

/// As the program's JSON has them.
nb::list places_list(const std::vector<Where>& places) {
  nb::list list;
  for (const auto& place : places) {
    nb::dict step;
    step["kind"] = str_of(to_string(place.kind));
    if (is_numbered(place.kind)) {
      step["number"] = place.number;
    } else {
      step["name"] = shown(place.name);
    }
    list.append(step);
  }
  return list;
}

}  // namespace

nb::object to_exception(const Error& error, std::optional<pipeline::FrameNumber> frame) {
  const nb::object make = nb::module_::import_("penstock.errors").attr("make_error");
  const nb::object number = frame ? nb::object(nb::int_(*frame)) : nb::object(nb::none());
  return make(str_of(to_string(error.code)), shown(in_python(error, error.message())),
              shown(in_python(error, error.reason)), places_list(error.places), number);
}

void raise(const Error& error) {
  const nb::object exception = to_exception(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

void warn(const std::string& text, int calls) {
  const nb::object category = nb::module_::import_("penstock.errors").attr("PenstockWarning");
  const auto words = in_python(Error{Code::kFailedPrecondition, {}, {}}, text);
  if (PyErr_WarnEx(category.ptr(), words.c_str(), calls) != 0)
    PyErr_WriteUnraisable(category.ptr());
}

}  // namespace penstock::python
