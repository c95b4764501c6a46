// The library's values as Python's dicts, with the names that the program's JSON has.
#pragma once

#include <vector>

#include <nanobind/nanobind.h>

#include "penstock/backend/registry.h"
#include "penstock/device/topology.h"
#include "penstock/pipeline/stats.h"
#include "penstock/plan/plan.h"

namespace penstock::python {

namespace nb = nanobind;

nb::dict stats_dict(const pipeline::Stats& stats);

/// (name, type as text, numpy's dtype, shape) of each; a shape is None where the rank is not known,
/// an open dimension its name or None, and a bound one (name, bound).
nb::list infos_list(const std::vector<plan::TensorInfo>& infos);

nb::dict devices_dict(const device::Topology& topology);
nb::dict backends_dict(const backend::Registry& registry);

}  // namespace penstock::python
