// Wiring: who reads what of whom, worked out before any thread starts. Internal to pipeline.
#pragma once

#include <filesystem>

#include "penstock/backend/registry.h"
#include "penstock/base/result.h"
#include "penstock/pipeline/state.h"

namespace penstock::pipeline {

/// Makes all of a state but its threads, from its plan, options and memories: edges with their
/// slots, stages with their workers, and who waits for whom. The package is a folder.
/// \error kInvalidArgument, kNotFound, kDataLoss  initial or bound values, functions, backends
///        kUnimplemented  a memory that cannot hold an edge's tensors
Status wire(State& state, const std::filesystem::path& folder, const backend::Registry& backends);

}  // namespace penstock::pipeline
