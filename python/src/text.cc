#include "text.h"

namespace penstock::python {

nb::object text_object(const std::string& text) {
  auto object = nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
  if (!object.is_valid()) throw nb::python_error();
  return object;
}

std::string text_of(nb::handle value) {
  const nb::object text = PyUnicode_Check(value.ptr()) ? nb::borrow(value) : nb::str(value);
  for (const char* const rest : {"surrogateescape", "backslashreplace"}) {
    const auto bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", rest));
    if (bytes.is_valid()) {
      const auto whole = nb::borrow<nb::bytes>(bytes);
      return {whole.c_str(), whole.size()};
    }
    PyErr_Clear();
  }
  return {};
}

}  // namespace penstock::python
