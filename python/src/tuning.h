// Tuning: a running pipeline that is kept at the plan that is the best now, from Python.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// tune(), and the class of what it gives. After bind_pipeline().
void bind_tuning(nanobind::module_& module);

}  // namespace penstock::python
