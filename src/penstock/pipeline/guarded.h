// guarded: calls of code that may throw, where an exception would end the process or leave the API.
#pragma once

#include <exception>
#include <new>
#include <type_traits>

#include "penstock/base/result.h"
#include "penstock/pipeline/record.h"

namespace penstock::pipeline {

/// What `call` returns, a Status or a Result, or what it throws as an error: a stage runs what
/// plugins bring, and memory may be refused anywhere.
template <typename Call>
std::invoke_result_t<Call> guarded(Call call) noexcept {
  try {
    try {
      return call();
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception& e) {
      return internal_error("the backend threw an exception: ", e.what());
    } catch (...) {
      return internal_error("the backend threw an exception of unknown type");
    }
  } catch (const std::bad_alloc&) {  // Or there is none to tell of the exception.
    return out_of_memory();
  }
}

}  // namespace penstock::pipeline
