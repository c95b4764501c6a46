// A model of a device that is not there yet.
#pragma once

#include <memory>
#include <vector>

#include "penstock/backend/backend.h"

namespace penstock::pipeline {

/// An Executable that is lost until the backend has compiled what `request` says, on a thread of
/// its own that has the CPUs of `mask`. That is tried again after 0.1 s, then after twice as long
/// each time, up to a second. `like`: the same model on a device that is there. A model with other
/// ports is not taken.
/// \pre  the backend's executables for that device are asynchronous.
Result<std::shared_ptr<backend::Executable>> compile_late(std::shared_ptr<backend::Backend> backend,
                                                          backend::CompileRequest request,
                                                          const backend::Executable& like,
                                                          std::vector<int> mask);

}  // namespace penstock::pipeline
