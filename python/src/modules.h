// Python modules of functions, which files of applications name.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// Lets the library load such modules by this interpreter (penstock/function/interpreter.h).
/// \raises ImportError  the library in this process is of another version.
void offer_modules();

}  // namespace penstock::python
