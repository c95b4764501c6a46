// WAV files in blocks, as the program cuts them.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

void bind_sound(nanobind::module_& module);

}  // namespace penstock::python
