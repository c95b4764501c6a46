// guarded(): what stands between C and the library, for errors and exceptions.
#pragma once

#include <exception>
#include <new>
#include <utility>

#include "penstock/base/result.h"
#include "penstock/c/handles.h"

namespace penstock::c {

/// Gives C an error: its code, and itself where `error` is not null. Throws nothing.
int give(Error failure, penstock_error** error) noexcept;

/// Calls `work()`, which answers a Status. \returns 0, or the error's code; `*error` is as
/// penstock.h says.
template <typename Work>
int guarded(penstock_error** error, const Work& work) noexcept {
  if (error != nullptr) *error = nullptr;
  try {
    Status status = work();
    return status ? 0 : give(std::move(status).error(), error);
  } catch (const std::bad_alloc&) {
    return give({.code = Code::kResourceExhausted, .reason = {}, .places = {}}, error);
  } catch (const std::exception& e) {
    try {
      return give(internal_error(e.what()), error);
    } catch (...) {
      return static_cast<int>(Code::kResourceExhausted);
    }
  } catch (...) {
    return give({.code = Code::kInternal, .reason = {}, .places = {}}, error);
  }
}

/// \error kInvalidArgument  names the argument that is NULL.
template <typename T>
Status expect(const T* argument, const char* name) {
  if (argument == nullptr) return invalid_argument(name, ": expected one, found NULL");
  return {};
}

}  // namespace penstock::c
