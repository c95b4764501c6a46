#include "errors.h"

#include <string>
#include <string_view>

namespace penstock::python {
namespace {

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
  return make(str_of(to_string(error.code)), shown(error.message()), shown(error.reason),
              places_list(error.places), number);
}

void raise(const Error& error) {
  const nb::object exception = to_exception(error);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

void warn(const std::string& text, int calls) {
  const nb::object category = nb::module_::import_("penstock.errors").attr("PenstockWarning");
  if (PyErr_WarnEx(category.ptr(), text.c_str(), calls) != 0) PyErr_WriteUnraisable(category.ptr());
}

}  // namespace penstock::python
