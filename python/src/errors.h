// Errors of the library as Python exceptions: penstock.errors has one class for each code.
#pragma once

#include <optional>
#include <string>

#include <nanobind/nanobind.h>

#include "penstock/base/result.h"
#include "penstock/pipeline/frame.h"

namespace penstock::python {

namespace nb = nanobind;

/// The exception, not raised. `frame`: the number of the frame that it belongs to.
nb::object to_exception(const Error& error, std::optional<pipeline::FrameNumber> frame = {});

/// Raises it. \pre the caller holds the GIL.
[[noreturn]] void raise(const Error& error);

/// Warns as penstock.PenstockWarning, of the line that `calls` calls of Python up from here stand
/// at. Where the user made warnings errors, or memory is refused, that is printed as an error: this
/// throws nothing. \pre the caller holds the GIL.
void warn(const std::string& text, int calls = 1);

/// Tells sys.unraisablehook of the exception in progress, which nobody waits for. \pre it is called
/// where one is caught, by a thread that holds the GIL.
void discard_exception(const char* where) noexcept;

template <typename T>
T value_or_raise(Result<T> result) {
  if (!result) raise(result.error());
  return *std::move(result);
}

inline void check(const Status& status) {
  if (!status) raise(status.error());
}

}  // namespace penstock::python
