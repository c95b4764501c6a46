// The options by which frames flow through a package.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "penstock/base/result.h"
#include "penstock/partition/batches.h"
#include "penstock/plan/stream_options.h"

namespace penstock::cli {

struct StreamArguments {
  std::string policy;
  std::optional<int> capacity;
  std::optional<double> max_age_ms;
  std::string on_error;
  std::optional<double> max_run_ms;
  std::optional<int> max_left_behind;
  std::string streams;
};

/// --policy, --capacity, --max-age, --on-error, --max-run, --streams
void add_stream_options(CLI::App* command, StreamArguments& arguments);

/// --streams alone
void add_streams_option(CLI::App* command, std::string& streams);

/// Nothing of an empty text. \error kInvalidArgument  shows what was expected and found.
Result<std::optional<plan::Streams>> to_streams(const std::string& text);

/// --batch of `build`
void add_most_frames_option(CLI::App* command, std::vector<std::string>& batches);

/// --batch
void add_batch_option(CLI::App* command, std::vector<std::string>& batches);

/// \error kInvalidArgument  of another form, or a second one of a stage: shows the text.
Result<partition::Batches> to_batches(const std::vector<std::string>& batches);

/// --state
void add_state_option(CLI::App* command, std::vector<std::string>& states);

/// \error kInvalidArgument  "--state: expected OUT=IN or OUT=IN:FILE.npy, found 'x'"
Result<plan::StateEdge> parse_state(const std::string& text);
/// \error as parse_state()
Result<std::vector<plan::StateEdge>> to_states(const std::vector<std::string>& states);

/// \error kInvalidArgument  shows what was expected and found.
Result<plan::StreamOptions> to_stream_options(const StreamArguments& arguments);

/// Says which of the options change less of the plan, to which they were applied, than they say.
void warn_of_options(const plan::StreamOptions& stream, const plan::Plan& plan);

}  // namespace penstock::cli
