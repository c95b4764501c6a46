// Pipelines that were measured to be the best: penstock.build() and penstock.explain().
#pragma once

#include <nanobind/nanobind.h>

namespace penstock::python {

/// build(model, options) gives the pipeline and the warnings met; explain(package) JSON.
void bind_build(nanobind::module_& module);

}  // namespace penstock::python
