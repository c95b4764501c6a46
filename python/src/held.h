// Python objects that the pipeline holds: inputs while it reads their memory, callables.
//
// A worker lets go of an input when its frame has left the stages that read it. It must not wait
// for the GIL then: a stage would stand still for as long as Python runs bytecode. So it puts the
// object on a stack, and whoever has the GIL next empties that: the next call into this module, or
// at the latest the interpreter's main thread by itself.
#pragma once

#include <memory>
#include <optional>

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

namespace penstock::python {

namespace nb = nanobind;

/// What keeps the memory of one input in place, or a callable. Made and destroyed under the GIL.
struct Held {
  Py_buffer buffer{};          ///< `obj` is null where `array` is what holds.
  nb::ndarray<nb::ro> array;   ///< By DLPack.
  nb::object object;           ///< Any other.
  std::shared_ptr<void> more;  ///< What holds objects of its own.
  Held* next = nullptr;        ///< On the stack.

  Held() = default;
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  ~Held();
};

/// An owner for Tensor::view(); any thread may drop it.
std::shared_ptr<const void> share(std::unique_ptr<Held> held);

/// Lets go of all that was dropped. \pre the caller holds the GIL.
void release_dropped();

}  // namespace penstock::python
