// penstock top: what the page of a running pipeline shows, in a terminal.
// In the library of serving, which speaks HTTP.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "penstock/base/address.h"
#include "penstock/base/files.h"
#include "penstock/base/printable.h"
#include "penstock/base/version.h"
#include "penstock/base/words.h"
#include "penstock/cli/command.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/json.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/terminal.h"
#include "penstock/cli/text.h"
#include "penstock/http/get.h"

namespace penstock::cli {
namespace {

struct TopOptions {
  std::string address = "127.0.0.1:8077";
  std::filesystem::path token;
  double interval_s = 1;
  bool once = false;
  bool json = false;
};

constexpr auto kPatience = std::chrono::seconds(10);

/// "HOST:PORT" of what a person may paste: an address, or where the page is.
std::string bare(std::string address) {
  constexpr std::string_view kScheme = "http://";
  if (address.starts_with(kScheme)) address.erase(0, kScheme.size());
  return address.substr(0, address.find('/'));
}

/// What is given may be what runs, which has an address only while it does.
Status check_address(const std::string& text) {
  const auto address = split_address(bare(text));
  if (address) return {};
  std::error_code ignored;
  if (std::filesystem::exists(text, ignored)) {
    return invalid_argument("expected the address of a pipeline that runs, found the file '", text,
                            "'; 'penstock run ", text, " --page' tells the address");
  }
  return address.error();
}

Result<std::vector<http::Header>> headers_of(const TopOptions& options) {
  if (options.token.empty()) return std::vector<http::Header>();
  std::ifstream file(options.token);
  std::string token;
  if (!(file >> token)) {
    return not_found("--token '", options.token.string(), "': expected a file with a token");
  }
  return std::vector<http::Header>{{"Authorization", "Bearer " + token}};
}

Result<Json> read_snapshot(const TopOptions& options, const std::vector<http::Header>& headers) {
  const auto address = bare(options.address);
  PENSTOCK_TRY(const auto answer, http::get(address, "/snapshot", headers, kPatience));
  auto json = Json::parse(answer.body, nullptr, false);
  if (answer.status == 401 || answer.status == 403 || answer.status == 503) {
    const auto why = json.is_object() ? json.find("error") : json.end();
    const bool told = why != json.end() && why->is_string();
    const auto code = answer.status == 503 ? Code::kResourceExhausted : Code::kPermissionDenied;
    return make_error(code, "'", address, "': ", told ? why->get<std::string>() : "refused");
  }
  if (answer.status != 200 || !json.is_object() || !json.contains("about")) {
    return invalid_argument("'", address,
                            "': expected a pipeline that runs with --page, found something else");
  }
  return json;
}

std::string micro(const Json& value) {
  return value.is_null() ? "-" : duration(value.get<double>() * 1e3);
}
std::string percent(double share) {
  return number(100 * share, 0) + " %";
}
/// None where it would leave no room for what stands beside it.
std::string bar(double share, std::size_t columns) {
  constexpr std::size_t kNarrow = 40, kWide = 80;
  if (columns < kNarrow) return percent(share);
  const std::size_t width = columns < kWide ? 10 : 20;
  const auto full =
      static_cast<std::size_t>(std::clamp(share, 0.0, 1.0) * static_cast<double>(width) + 0.5);
  return "[" + std::string(full, '#') + std::string(width - full, '.') + "] " + percent(share);
}

/// How the rate is beside what the plan predicts, as the page says it (web/src/liveparts.js).
std::string beside_prediction(double fps, double period, const Json& stages) {
  constexpr double kBusy = 0.8;
  double load = 0;
  for (const auto& stage : stages) load = std::max(load, stage.at("load").get<double>());
  const bool waits = fps * period < 0.9 && load < kBusy;
  return concat(", predicted ", number(1 / period, 1), " (",
                waits ? "it is not busy" : percent(fps * period) + " of it", ")");
}

std::string head_text(const Json& about, const Json& sample) {
  const double fps = sample.at("fps"), period = about.at("predicted").at("period_seconds");
  std::string text = concat("model '", printable(about.at("model").get<std::string>()),
                            "': ", number(fps, 1), " frames a second");
  if (period > 0) text += beside_prediction(fps, period, sample.at("stages"));
  const auto& latency = sample.at("latency_us");
  if (!latency.is_null()) {
    text += concat("\nlatency p50 ", micro(latency.at(0)), ", p90 ", micro(latency.at(1)), ", p99 ",
                   micro(latency.at(2)), ", max ", micro(latency.at(3)));
  }
  text += concat("\n", sample.at("ok").get<std::uint64_t>(), " ok, ",
                 counted(sample.at("errors").get<std::uint64_t>(), "error"), ", ",
                 sample.at("drops").get<std::uint64_t>(), " dropped, ",
                 sample.at("cancelled").get<std::uint64_t>(), " cancelled, ",
                 sample.at("in_flight").get<std::uint64_t>(), " in flight\nmemory ",
                 bytes(sample.at("rss").get<std::uint64_t>()), ", processors in use ",
                 number(sample.at("cpu").get<double>(), 2), "\n");
  if (!sample.at("closed").is_null()) {
    text += "takes no more frames: " + printable(sample.at("closed").get<std::string>()) + "\n";
  }
  return text;
}

/// "1.02", "1.43 beyond the noise"; what an older program shows has none.
std::string drift_text(const Json& stage) {
  const auto drift = stage.value("drift", Json());
  if (drift.is_null()) return "-";
  return number(drift.at(0).get<double>(), 2) +
         (drift.at(1).get<bool>() ? ", beyond the noise" : "");
}

std::string stages_text(const Json& about, const Json& sample, std::size_t columns) {
  Table table({"stage", "load", "where", ">frames", ">errors", ">drops", ">waits p50 / p99",
               ">computes p50 / p99", ">over predicted"});
  for (std::size_t i = 0; i < sample.at("stages").size(); ++i) {
    const auto &known = about.at("stages").at(i), &stage = sample.at("stages").at(i);
    const auto where =
        join(known.at("devices"), ",", [](const Json& name) { return name.get<std::string>(); });
    const auto pair = [&](const char* name) {
      return micro(stage.at(name).at(0)) + " / " + micro(stage.at(name).at(1));
    };
    table.add({known.at("name").get<std::string>(), bar(stage.at("load").get<double>(), columns),
               known.at("backend").get<std::string>() + " on " + where, stage.at("frames").dump(),
               stage.at("errors").dump(), stage.at("drops").dump(), pair("queue_us"),
               pair("infer_us"), drift_text(stage)});
  }
  return table.print_within(columns);
}

std::string queues_text(const Json& about, const Json& sample, std::size_t columns) {
  Table table({"from, to", "frames in it", "when full", ">drops"});
  for (std::size_t i = 0; i < sample.at("edges").size(); ++i) {
    const auto &known = about.at("edges").at(i), &edge = sample.at("edges").at(i);
    const int depth = edge.at("depth"), capacity = known.at("capacity");
    table.add({known.at("name").get<std::string>(),
               concat(bar(static_cast<double>(depth) / std::max(1, capacity), columns), ", ", depth,
                      " of ", capacity),
               known.at("policy").get<std::string>(), edge.at("drops").dump()});
  }
  return table.print_within(columns);
}

/// Of lines that are no longer than `columns`.
std::string to_text(const Json& snapshot, std::size_t columns) {
  const auto &about = snapshot.at("about"), &sample = snapshot.at("sample");
  if (sample.is_null()) return wrapped("nothing was seen yet\n", columns);
  std::string text = wrapped(head_text(about, sample), columns) + "\n" +
                     stages_text(about, sample, columns) + "\n" +
                     queues_text(about, sample, columns) + "\n";
  for (std::size_t i = 0; i < about.at("cpus").size(); ++i) {
    text += concat("cpu ", about.at("cpus").at(i).get<int>(), " ",
                   bar(sample.at("cpus").at(i).get<double>(), columns), "\n");
  }
  for (const auto& failure : snapshot.at("failures")) {
    text += wrapped("error: " + printable(failure.at("message").get<std::string>()), columns);
  }
  return text;
}

/// So that the first line stays on the terminal: what is below is counted.
std::string cut_to_rows(const std::string& text, std::size_t rows) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  if (lines < rows) return text;
  const std::size_t kept = std::max<std::size_t>(rows, 3) - 2;
  std::size_t end = 0;
  for (std::size_t line = 0; line < kept; ++line) end = text.find('\n', end) + 1;
  return concat(text.substr(0, end), "(", lines - kept, " more lines)\n");
}

Status show_text(const TopOptions& options, const Json& snapshot) {
  const bool in_place = !options.once && obeys_escapes(stdout);
  constexpr const char* kHomeAndClear = "\x1b[H\x1b[2J";
  constexpr std::size_t kFewest = 4;
  const auto [columns, rows] = size_of_terminal(stdout);
  try {
    const auto text =
        to_text(snapshot, is_terminal(stdout) ? std::max(columns, kFewest) : std::string::npos);
    if (in_place) std::fputs(kHomeAndClear, stdout);
    print(in_place ? cut_to_rows(text, rows) : text + (options.once ? "" : "\n"));
  } catch (const Json::exception&) {
    return invalid_argument("'", bare(options.address),
                            "': expected what a pipeline of this version shows (", version(),
                            "), found another form");
  }
  return {};
}

/// \error  the text has another form, or nobody reads on.
Status show(const TopOptions& options, const Json& snapshot) {
  if (!options.json) {
    PENSTOCK_CHECK_OK(show_text(options, snapshot));
  } else if (options.once) {
    print_json(snapshot);
  } else {
    print(snapshot.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return {};
  return make_error(code_of_errno(errno),
                    "standard output: cannot be written: ", std::generic_category().message(errno));
}

using Seconds = std::chrono::duration<double>;
using Moment =
    std::chrono::time_point<std::chrono::steady_clock, std::chrono::duration<double, std::nano>>;

Moment in(Seconds time) {
  return std::chrono::steady_clock::now() + time;
}

void pause(Moment end) {
  constexpr auto kStep = std::chrono::milliseconds(50);  // Between looks at signals.
  while (!interrupted() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(kStep);
}

/// Hears of the end, on a connection that is open while snapshots are read and shown.
class Ending {
 public:
  Ending(const TopOptions& options, const std::vector<http::Header>& headers)
      : options_(options), headers_(headers) {}

  /// Where there is no connection, or it was lost.
  Status listen() {
    if (events_ && !events_->ended()) return {};
    const auto target = concat("/events?after=", UINT64_MAX);  // What comes from now on.
    PENSTOCK_TRY(events_, http::Listener::start(bare(options_.address), target, headers_));
    constexpr auto kToBegin = std::chrono::seconds(1);
    events_->wait_for("retry:", kToBegin, interrupted);
    return {};
  }
  /// By then; at once where there is no connection.
  bool hears_end(Moment then) {
    constexpr Seconds kMost = std::chrono::hours(1);  // Of what a wait takes.
    while (events_) {
      const Seconds wanted = then - std::chrono::steady_clock::now();
      const auto left = std::clamp(wanted, Seconds(0), kMost);
      const auto time = std::chrono::duration_cast<std::chrono::nanoseconds>(left);
      if (events_->wait_for("event: end\n", time, interrupted)) return true;
      if (events_->ended() || interrupted() || left < kMost) return false;
    }
    return false;
  }

 private:
  const TopOptions& options_;
  const std::vector<http::Header>& headers_;
  std::optional<http::Listener> events_;
};

int tell_end() {
  std::fputs("penstock: it has ended\n", stderr);
  return kOk;
}

/// It answers no more, where it did before if there is a last snapshot.
Result<int> tell_loss(const TopOptions& options, const Error& error, const Json& last) {
  if (last.is_null()) {
    return make_error(Code::kUnavailable, error.message(),
                      "; start 'penstock run' or 'penstock bench' with --page first, which "
                      "tells the address");
  }
  const auto sample = last.value("sample", Json());
  if (sample.is_object() && !sample.value("closed", Json()).is_null()) return tell_end();
  return make_error(Code::kUnavailable, "'", bare(options.address),
                    "': the connection was lost before the end: the program was killed, or the "
                    "way to it is cut");
}

Result<int> run(const TopOptions& options) {
  PENSTOCK_TRY(const auto headers, headers_of(options));
  const InterruptGuard guard;
  Ending ending(options, headers);
  Json last;
  while (!interrupted()) {
    if (!options.once) PENSTOCK_CHECK_OK(ending.listen());
    auto snapshot = read_snapshot(options, headers);
    if (!snapshot && snapshot.error().code == Code::kUnavailable) {
      constexpr Seconds kOnItsWay{1};
      return ending.hears_end(in(kOnItsWay)) ? tell_end()
                                             : tell_loss(options, snapshot.error(), last);
    }
    PENSTOCK_TRY(last, std::move(snapshot));
    PENSTOCK_CHECK_OK(show(options, last));
    if (options.once) return kOk;
    const auto next = in(Seconds(options.interval_s));
    if (ending.hears_end(next)) return tell_end();
    pause(next);
  }
  return interrupt_code();
}

constexpr const char* kTopFooter =
    R"(Shows what the page of 'penstock run --page' or 'bench --page' shows, until that ends or Ctrl-C. Where
the connection is lost before the end, the exit code is 1. On a terminal the text stays in its place;
elsewhere one stands behind the other.

Examples:
  penstock top                                        what runs with --page and no address
  penstock top 127.0.0.1:8077 --interval 0.5
  penstock top --once --json | jq .sample.fps)";

}  // namespace
}  // namespace penstock::cli

/// What serve_library.cc looks for.
extern "C" void penstock_declare_top_options(CLI::App& command, penstock::cli::Action& chosen) {
  using namespace penstock::cli;  // NOLINT(google-build-using-namespace): names of the command
  auto options = std::make_shared<TopOptions>();
  command.footer(kTopFooter);
  command.add_option("address", options->address, "HOST:PORT of the page, or its address")
      ->capture_default_str()
      ->check(taken_by(check_address));
  command.add_option("--interval", options->interval_s, "Seconds between two looks")
      ->capture_default_str()
      ->check(positive_number());
  command.add_option("--token", options->token, "A file with the token that is shown");
  command.add_flag("--once", options->once, "Print what is there now, and end");
  command.add_flag("--json", options->json, "Print JSON, a line for each look");
  set_action(&command, chosen, options, run);
}
