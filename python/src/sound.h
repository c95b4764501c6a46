// WAV files as the library reads them.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_sound(nanobind::module_& module);

}  // namespace penstock::python
