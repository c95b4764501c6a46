// Watching: a running pipeline behind a port, from Python.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// watch(), and the class of what it gives. After bind_pipeline().
void bind_watching(nanobind::module_& module);

}  // namespace penstock::python
