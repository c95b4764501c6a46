// Ready-made functions, called on arrays alone.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_ready(nanobind::module_& module);

}  // namespace penstock::python
