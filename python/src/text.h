// Text between the library, where names and paths may be any bytes, and Python.
#pragma once

#include <string>

#include <nanobind/nanobind.h>

namespace penstock::python {

namespace nb = nanobind;

/// Bytes that are no UTF-8 become what os.fsdecode() makes of them.
nb::object text_object(const std::string& text);

/// A str, or what str() makes of another: as os.fsencode() does, and with \udXXX spelt out where
/// there are no such bytes. Raises what str() raises.
std::string text_of(nb::handle value);

}  // namespace penstock::python
