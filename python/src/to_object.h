// to_object: what was made in C++ as a Python object that owns it.
#pragma once

#include <memory>
#include <utility>

#include <nanobind/nanobind.h>

namespace penstock::python {

namespace nb = nanobind;

/// Where Python has no memory for the object, what was made is destroyed.
template <typename T>
nb::object to_object(std::unique_ptr<T> made) {
  nb::object object = nb::cast(made.get(), nb::rv_policy::take_ownership);
  static_cast<void>(made.release());
  return object;
}

}  // namespace penstock::python
