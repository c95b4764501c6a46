// Serving: models behind a port, from Python.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// serve(), and the class of what it gives.
void bind_serving(nanobind::module_& module);

}  // namespace penstock::python
