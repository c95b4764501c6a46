// Applications: several networks and functions in one pipeline.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// app(description, options): a pipeline of what penstock.App describes, with the warnings met.
void bind_app(nanobind::module_& module);

}  // namespace penstock::python
