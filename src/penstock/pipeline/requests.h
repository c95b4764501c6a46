// Requests: what backends compile for an instance of a stage, and where. Internal to pipeline.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "penstock/backend/backend.h"
#include "penstock/base/result.h"
#include "penstock/pipeline/state.h"

namespace penstock::pipeline {

/// The CPUs of the thread here of an instance on the device.
std::vector<int> cpus_for(const State& state, const plan::Stage& stage,
                          const device::Device& device);

/// Of an instance of the stage on the device, in the order of StageCall::Executables.
/// \error kUnimplemented  a backend does not run there
///        as device::check_available()
Result<std::vector<backend::CompileRequest>> requests_for(const State& state,
                                                          const std::filesystem::path& folder,
                                                          const Stage& made,
                                                          const device::Device& device);

/// Of the files that these requests compile, with the weights beside them.
std::uintmax_t bytes_of_models(const std::vector<backend::CompileRequest>& requests);

/// What an engine says of a stage's model, which may lie in a temporary folder: with its path in
/// the package, and with what may help.
Error blame_model(Error error, const State& state, const std::filesystem::path& folder,
                  const plan::Stage& stage, const std::vector<backend::CompileRequest>& requests);

}  // namespace penstock::pipeline
