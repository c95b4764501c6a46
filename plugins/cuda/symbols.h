// Symbols: a library's functions into the members that hold them.
#pragma once

#include "penstock/backend/engine_places.h"

namespace penstock::cuda {

/// \error kUnavailable  "FILE: no NAME in it"
template <typename Function>
Status find_symbol(const backend::LoadedLibrary& library, const char* name, Function*& function) {
  PENSTOCK_TRY(function, library.function<Function>(name));
  return {};
}

}  // namespace penstock::cuda
