#include "errors.h"

#include <exception>
#include <new>
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
  try {
    const nb::object category = nb::module_::import_("penstock.errors").attr("PenstockWarning");
    if (PyErr_WarnEx(category.ptr(), text.c_str(), calls) != 0) {
      PyErr_WriteUnraisable(category.ptr());
    }
  } catch (const nb::python_error&) {  // No memory for the import.
    discard_exception("a warning of penstock");
  }
}

void discard_exception(const char* where) noexcept {
  try {
    throw;
  } catch (nb::python_error& error) {
    error.discard_as_unraisable(where);
  } catch (const std::exception& error) {
    const nb::object context = nb::steal(PyUnicode_FromString(where));
    const bool no_memory = dynamic_cast<const std::bad_alloc*>(&error) != nullptr;
    PyErr_SetString(no_memory ? PyExc_MemoryError : PyExc_RuntimeError, error.what());
    PyErr_WriteUnraisable(context.ptr());
  }
}

}  // namespace penstock::python
