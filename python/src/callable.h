// Python callables as functions of the library: stages that run Python.
#pragma once

#include <memory>
#include <vector>

#include <nanobind/nanobind.h>

#include "penstock/function/function.h"

namespace penstock::python {

namespace nb = nanobind;

/// A declared callable. The one reference to `object` is `holder`'s.
struct Callable {
  function::Function function;
  std::shared_ptr<const void> holder;
  PyObject* object = nullptr;
};

/// Of dicts with "name", "call", "inputs" and "outputs" (lists of a name and a type as text),
/// "stateful", and "drop", the class of what means that a frame is dropped; "module", the path of
/// the module that declares it, if one does (penstock/modules.py).
///
/// The GIL is held around the call only. Inputs are read-only arrays over the stage's own memory,
/// for the time of the call; what is returned is copied once, into the next edge's slot.
/// \pre the caller holds the GIL. \error kInvalidArgument  a type, named with its port.
Result<std::vector<Callable>> to_callables(nb::list declarations);

}  // namespace penstock::python
