// The options that name frames' values.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "penstock/base/result.h"
#include "penstock/frames/frame.h"
#include "penstock/frames/given.h"
#include "penstock/plan/plan.h"

namespace penstock::cli {

/// --input, --inputs, --hop, --sample-rate, --seed, --integer-limit
void add_input_options(CLI::App* command, frames::SourceOptions& options);

/// Whether what --input was given has no form of NAME=FILE, whichever inputs there are. What to
/// write instead is told by the network's inputs, so that it is read first.
bool is_malformed_input(const std::string& text);

/// --seed, --integer-limit
void add_random_options(CLI::App* command, frames::SourceOptions& options);

/// What to do where a frame failed: "; the inputs were random: ...", or, where files were named,
/// what `failed` holds; null: it is not known which frame that was. Empty where the values are not
/// to blame: it was late, or an edge full.
std::string advice_on_frame(const Error& error, const frames::SourceOptions& options,
                            const std::vector<plan::TensorInfo>& inputs,
                            const frames::NotGiven& others, const frames::Frame* failed);

/// A frame of the types that all of them have; null: they differ, or there is none.
const frames::Frame* frame_like_all(const std::vector<frames::Frame>& frames);

}  // namespace penstock::cli
