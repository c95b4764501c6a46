// A made-up accelerator: computes by itself, in memory of its own that the host cannot read.
#pragma once

#include <memory>

#include "penstock/backend/backend.h"
#include "tests/synthetic_backend/settings.h"

namespace penstock::synthetic {

/// Of the device of that number, the same in the whole process. It copies in the time that the
/// settings say, on the thread that asks. \pre  the settings have an accelerator
std::shared_ptr<backend::Memory> memory_of(const Settings& settings, int index);

/// What runs on the device as `inner` does in the host's memory: one run after the other, in the
/// order of their start, on a thread of the device's. \pre  as of memory_of()
std::unique_ptr<backend::Executable> on_accelerator(const Settings& settings, int index,
                                                    std::unique_ptr<backend::Executable> inner);

}  // namespace penstock::synthetic
