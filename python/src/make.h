// Making pipelines: of a model and cuts, of a model and a search, of a package.
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// split(), plan(), load(), devices(), backends(). Those that make a pipeline give it with the
/// warnings met on the way.
void bind_make(nanobind::module_& module);

}  // namespace penstock::python
