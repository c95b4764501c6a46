// Sets up spdlog: a sink on stderr, the form of a line, and the level by verbosity.
#include "penstock/cli/log.h"

#include <memory>

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

namespace penstock::cli {

void set_up_log(int verbosity) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("penstock", std::move(sink)));
  spdlog::set_pattern("penstock: %l: %v");
  spdlog::set_level(verbosity >= 2   ? spdlog::level::debug
                    : verbosity == 1 ? spdlog::level::info
                                     : spdlog::level::warn);
}

}  // namespace penstock::cli
