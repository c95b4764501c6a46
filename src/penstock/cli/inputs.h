// The options that name frames' values.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock/base/result.h"
#include "penstock/frames/given.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

/// --input, --inputs, --hop, --seed, --integer-limit
void add_input_options(CLI::App* command, frames::SourceOptions& options);

/// --seed, --integer-limit
void add_random_options(CLI::App* command, frames::SourceOptions& options);

/// What to do where a frame failed whose values were random: "; the inputs were random: ...". Empty
/// where files were named, or the values are not to blame: it was late, or an edge full.
std::string advice_on_random(const Error& error, const frames::SourceOptions& options,
                             const std::vector<plan::TensorInfo>& inputs);

}  // namespace penstock::cli
