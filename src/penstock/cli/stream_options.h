// The options by which frames flow through a package.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "penstock/base/result.h"
#include "penstock/session/session.h"

namespace penstock::cli {

struct StreamArguments {
  std::string policy;
  std::optional<std::int64_t> capacity;
  std::optional<double> max_age_ms;
  std::string on_error;
};

/// --policy, --capacity, --max-age, --on-error
void add_stream_options(CLI::App* command, StreamArguments& arguments);

/// \error kInvalidArgument  shows what was expected and found.
Result<StreamOptions> to_stream_options(const StreamArguments& arguments);

}  // namespace penstock::cli
