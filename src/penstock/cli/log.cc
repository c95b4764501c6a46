// Sets up spdlog: a sink on stderr, the form of a line, and the level by verbosity.
#include "penstock/cli/log.h"

#include <cstdio>
#include <ctime>
#include <memory>
#include <utility>

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include "penstock/base/printable.h"
#include "penstock/cli/progress.h"

namespace penstock::cli {
namespace {

/// Names of nodes, values and files come from elsewhere: a terminal would obey what is in them.
class PrintablePayload final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm& /*time*/,
              spdlog::memory_buf_t& out) override {
    const auto text = printable({message.payload.data(), message.payload.size()});
    out.append(text.data(), text.data() + text.size());
  }
  [[nodiscard]] std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<PrintablePayload>();
  }
};

/// Standard error, where a bar may stand.
class Sink final : public spdlog::sinks::stderr_sink_mt {
 public:
  void log(const spdlog::details::log_msg& message) override {
    make_room_on(stderr);
    spdlog::sinks::stderr_sink_mt::log(message);
  }
};

}  // namespace

void set_up_log(int verbosity) {
  auto sink = std::make_shared<Sink>();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("penstock", std::move(sink)));
  auto pattern = std::make_unique<spdlog::pattern_formatter>();
  pattern->add_flag<PrintablePayload>('*').set_pattern("penstock: %l: %*");
  spdlog::set_formatter(std::move(pattern));
  spdlog::set_level(verbosity >= 2   ? spdlog::level::debug
                    : verbosity == 1 ? spdlog::level::info
                                     : spdlog::level::warn);
}

}  // namespace penstock::cli
