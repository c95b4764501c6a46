// Declares the options; starts a watcher for page and recording, and one for the metrics.
#include "penstock/cli/watching.h"

#include <cstdio>
#include <utility>

#include <spdlog/spdlog.h>

#include "penstock/base/address.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/outputs.h"
#include "penstock/plan/package.h"
#include "penstock/tune/report.h"

namespace penstock::cli {
namespace {

constexpr const char* kPageAddress = "127.0.0.1:8077";

/// An optional value would take what stands behind the option.
std::string address_problem(const std::string& text) {
  const auto address = split_address(text);
  if (address) return {};
  return address.error().message() + "; with no address write --page behind all else";
}

Result<std::unique_ptr<gateway::Watching>> start(
    const char* option, const WatchArguments& arguments, gateway::WatchOptions options,
    const std::shared_ptr<const pipeline::Pipeline>& pipeline) {
  options.insecure = arguments.insecure;
  options.tokens = arguments.tokens;
  options.warn = [](const std::string& text) { spdlog::warn("{}", text); };
  auto started = gateway::start_watching(pipeline, options);
  if (!started) return std::move(started).error().within(option);
  return *std::move(started);
}

void tell(const char* what, const std::string& address, const char* path) {
  std::fputs(concat("penstock: ", what, " at http://", address, path, "\n").c_str(), stderr);
}

/// The address of the page: CLI11 asks no check of an option that needs no value.
void take_address(std::string& address, const std::string& text) {
  if (text.empty()) throw CLI::ValidationError("--page", "expected HOST:PORT, found ''");
  address = text;
}

/// The page's address serves the metrics too, and takes no second server.
Status check_addresses(const WatchArguments& arguments) {
  const auto& page = arguments.page;
  if (page.empty() || page != arguments.metrics || page.ends_with(":0")) return {};
  return invalid_argument("--metrics: --page serves them already, at http://", page,
                          "/metrics: leave --metrics out, or give another port");
}

}  // namespace

void add_watch_options(CLI::App* command, WatchArguments& arguments) {
  command
      ->add_option_function<std::string>(
          "--page", [&arguments](const std::string& text) { take_address(arguments.page, text); },
          concat("Serve a page of the running pipeline (default: at ", kPageAddress,
                 "); port 0: any that is free"))
      ->expected(0, 1)
      ->default_str(kPageAddress)
      ->check(CLI::Validator(address_problem, "", ""))
      ->type_name("[HOST:PORT]");
  command
      ->add_option("--record", arguments.record,
                   "Write what the page shows to this file at the end, as a page that stands alone")
      ->type_name("FILE.html");
  command
      ->add_option("--metrics", arguments.metrics,
                   "Serve figures for Prometheus at http://HOST:PORT/metrics; port 0: any")
      ->type_name("HOST:PORT")
      ->check(taken_by(split_address));
  command->add_flag("--insecure", arguments.insecure,
                    "Serve page and figures also where other machines could read them");
  command->add_option("--tokens", arguments.tokens,
                      "Show them only to who has a token of this file, with the right admin "
                      "('penstock token')");
}

Result<Watchers> watch(const WatchArguments& arguments, const plan::Package& package,
                       const std::shared_ptr<const pipeline::Pipeline>& pipeline) {
  const auto* guards = !arguments.tokens.empty() ? "--tokens"
                       : arguments.insecure      ? "--insecure"
                                                 : nullptr;
  if (guards != nullptr && arguments.page.empty() && arguments.metrics.empty()) {
    return invalid_argument(guards, ": is for --page or --metrics, found neither");
  }
  if (!arguments.record.empty()) {
    PENSTOCK_CHECK_OK(check_writable("--record", arguments.record, true, kHtml));
  }
  PENSTOCK_CHECK_OK(check_addresses(arguments));
  Watchers watchers;
  if (!arguments.page.empty() || !arguments.record.empty()) {
    gateway::WatchOptions options;
    options.address = arguments.page;
    options.page = !arguments.page.empty();
    options.record = arguments.record;
    if (const auto report = tune::read_report(package)) options.report = tune::to_json(*report);
    const auto* option = arguments.page.empty() ? "--record" : "--page";
    PENSTOCK_TRY(auto started, start(option, arguments, std::move(options), pipeline));
    if (!arguments.page.empty()) tell("page", started->address(), "/");
    watchers.push_back(std::move(started));
  }
  if (!arguments.metrics.empty()) {
    gateway::WatchOptions options;
    options.address = arguments.metrics;
    PENSTOCK_TRY(auto started, start("--metrics", arguments, std::move(options), pipeline));
    tell("metrics", started->address(), "/metrics");
    watchers.push_back(std::move(started));
  }
  return watchers;
}

Status stop(const Watchers& watchers) {
  for (const auto& watcher : watchers) PENSTOCK_CHECK_OK(watcher->stop());
  return {};
}

}  // namespace penstock::cli
