// penstock serve and penstock worker, in a library of their own: serve_library.cc.
// The worker is the same server, with room for stages of callers of other machines.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <poll.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>
#include <unistd.h>

#include "penstock/base/address.h"
#include "penstock/base/thread.h"
#include "penstock/base/words.h"
#include "penstock/cli/command.h"
#include "penstock/cli/import_options.h"
#include "penstock/cli/interrupt.h"
#include "penstock/cli/numbers.h"
#include "penstock/cli/outputs.h"
#include "penstock/cli/plugins.h"
#include "penstock/cli/stream_options.h"
#include "penstock/gateway/serving.h"
#include "penstock/graph/import.h"
#include "penstock/plan/package.h"

namespace penstock::cli {
namespace {

struct ServeOptions {
  BackendArguments engine;
  bool no_native_code = false;
  bool worker = false;  // Stages of callers are taken, too.
  host::Options host;
  double lease_s = 5;
  double patience_s = 30;
  std::filesystem::path trace;                 // Empty: none.
  std::vector<std::string> constants, states;  // [MODEL:]NAME=VALUE, [MODEL:]OUT=IN.
  gateway::Options all;
};

constexpr double kMostSeconds = 1e9;                   // Beyond, times overflow.
constexpr auto kLook = std::chrono::milliseconds(50);  // Between looks at signals.

void say(const std::string& line) {
  std::fputs(concat("penstock: ", line, "\n").c_str(), stdout);
  std::fflush(stdout);
}

/// Requests warn too: none of them waits for who reads the standard error.
void warn(const std::string& message) {
  pollfd room{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&room, 1, 0) == 1) spdlog::warn("{}", message);
}

/// Each connection takes a descriptor: lets the process have as many as the system allows, and
/// bounds connections by what is left for them.
void fit_descriptors(std::size_t& connections, std::size_t protocols) {
  constexpr rlim_t kOthers = 256;  // Models, libraries, regions of shared memory.
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const rlim_t left = limit.rlim_cur > 2 * kOthers ? limit.rlim_cur - kOthers : limit.rlim_cur / 2;
  const std::size_t most = std::max<std::size_t>(1, left / protocols);
  if (connections > most) {
    spdlog::info("at most {} connections, as the limit of descriptors is {}", most, limit.rlim_cur);
  }
  connections = std::min(connections, most);
}

host::Options to_host_options(const ServeOptions& options) {
  auto host = options.host;
  host.native_code = options.all.server.uploads_native_code;
  host.limits.lease = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options.lease_s));
  host.say = [](const std::string& line) { spdlog::info("{}", line); };
  return host;
}

/// "[MODEL:]REST" taken apart: the models that it is of, and the rest. The longest beginning that
/// is a model's name counts, as names of inputs hold ':' too; of one model none is needed.
Result<std::pair<std::vector<serve::ModelSource*>, std::string>> addressed(
    std::vector<serve::ModelSource>& models, const std::string& text, const std::string& option) {
  const auto equals = text.find('=');
  for (auto colon = text.rfind(':', equals); colon != text.npos && colon > 0;
       colon = text.rfind(':', colon - 1)) {
    auto called = serve::models_called(models, text.substr(0, colon));
    if (called) return std::pair(*std::move(called), text.substr(colon + 1));
  }
  if (models.size() == 1) return std::pair(std::vector{&models.front()}, text);
  if (models.empty()) {
    return invalid_argument(option, ": is for a model (.onnx) that is served, found none");
  }
  return invalid_argument(option, ": of several models (", quoted_names(models),
                          ") it names the one that it is for: expected MODEL:NAME=..., as in ",
                          models.front().name, ":", text, ", found '", text, "'");
}

/// --constant and --state at the models that they are for.
Status settle_models(const ServeOptions& options, std::vector<serve::ModelSource>& models) {
  for (const auto& text : options.constants) {
    PENSTOCK_TRY(const auto found, addressed(models, text, "--constant"));
    for (auto* model : found.first) {
      auto& constants = model->settings.constants;
      auto constant =
          part_constant(found.second, [&](const auto& name) { return constants.contains(name); });
      if (!constant) return std::move(constant).error().within(concat("model '", model->name, "'"));
      constants.insert(*std::move(constant));
    }
  }
  for (const auto& text : options.states) {
    PENSTOCK_TRY(const auto found, addressed(models, text, "--state"));
    PENSTOCK_TRY(const auto edges, to_states({found.second}));
    for (auto* model : found.first) model->settings.states.push_back(edges.front());
  }
  return {};
}

/// Of --listen.
std::string listening_problem(const std::string& text) {
  if (socket_file(text)) return {};
  const auto parts = split_address(text);
  return parts ? std::string() : parts.error().message() + "; a socket's file is unix:PATH";
}

Result<gateway::Options> to_options(const ServeOptions& options) {
  auto all = options.all;
  auto& server = all.server;
  for (const auto& text : std::exchange(all.models, {})) {
    PENSTOCK_TRY(auto source, serve::parse_source(text));
    server.models.push_back(std::move(source));
  }
  PENSTOCK_CHECK_OK(settle_models(options, server.models));
  PENSTOCK_TRY(server.backend_options, to_backend_options(options.engine));
  fit_descriptors(server.limits.connections, all.http.empty() ? 1 : 2);
  server.trace = !options.trace.empty();
  server.native_code = !options.no_native_code;
  server.warn = warn;
  server.stopped = interrupted;
  server.patience = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(options.patience_s));
  if (options.worker) all.worker = to_host_options(options);
  return all;
}

void tell_reload(const serve::Reloaded& reloaded) {
  for (const auto& error : reloaded.errors) {
    std::fputs(concat("penstock: SIGHUP: not replaced: ", error.message(), "\n").c_str(), stderr);
  }
  if (!reloaded.errors.empty()) return;
  const bool any = reloaded.models > 0;
  std::fputs(
      any ? "penstock: SIGHUP: replaced\n"
          : "penstock: SIGHUP: nothing to replace: no model that it was started with is loaded\n",
      stderr);
}

/// Until a signal ends it. SIGHUP reads the models again, beside the requests.
void wait_for_the_end(gateway::Serving& serving) {
  std::future<serve::Reloaded> reloading;
  while (!interrupted()) {
    std::this_thread::sleep_for(kLook);
    if (reloading.valid() &&
        reloading.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
      tell_reload(reloading.get());
    }
    if (reloading.valid() || !take_reload()) continue;
    auto started = start_async([&] { return serving.reload(); });
    if (started) {
      reloading = *std::move(started);
    } else {
      tell_reload({.errors = {started.error()}});
    }
  }
  if (reloading.valid()) tell_reload(reloading.get());
}

Status write_trace(const gateway::Serving& serving, const std::filesystem::path& file) {
  PENSTOCK_TRY(const auto lost, serving.write_trace(file));
  if (lost > 0) spdlog::warn("trace '{}': {} earlier spans are lost", file.string(), lost);
  return {};
}

Result<int> run(const ServeOptions& options) {
  // What the end could not write would be lost with all that it tells.
  if (!options.trace.empty())
    PENSTOCK_CHECK_OK(check_writable("--trace", options.trace, true, kJson));
  const std::filesystem::path log = options.all.access_log;
  if (!log.empty() && log != "-")
    PENSTOCK_CHECK_OK(check_writable("--access-log", log, true, kJson));
  PENSTOCK_TRY(const auto serving_options, to_options(options));
  const backend::Registry backends = load_backends();
  const InterruptGuard guard(Hangup::kReload);
  std::signal(SIGPIPE, SIG_IGN);  // Whoever reads its output may leave.
  auto started = gateway::start_serving(serving_options, backends);
  if (!started && started.error().code == Code::kCancelled && interrupted()) {
    say("ended before its models were loaded");
    return kOk;
  }
  PENSTOCK_TRY(const auto serving, std::move(started));
  if (!serving->contents().empty()) say(concat("contents in ", serving->contents().string()));
  for (const auto& model : serving->models()) say(concat("model ", model));
  if (serving_options.insecure)
    say("plain text: whoever reaches the port can read what goes over it");
  say(concat("gRPC on ", serving->grpc_address()));
  if (!serving->http_address().empty()) say(concat("HTTP on ", serving->http_address()));
  wait_for_the_end(*serving);
  if (!serving->stop()) spdlog::warn("requests were left; they ended as cancelled");
  if (!options.trace.empty()) PENSTOCK_CHECK_OK(write_trace(*serving, options.trace));
  return kOk;
}

/// An option with a default, held to what `valid` says.
template <typename Value>
void add_limit(CLI::App* command, const char* name, Value& value, const char* description,
               const CLI::Validator& valid) {
  command->add_option(name, value, description)->capture_default_str()->check(valid);
}

void add_limits(CLI::App* command, serve::Limits& limits) {
  const auto add = [&](const char* name, auto& value, const char* description) {
    add_limit(command, name, value, description, positive_count());
  };
  const auto add_bytes = [&](const char* name, auto& value, const char* description) {
    add_limit(command, name, value, description, positive_bytes());
  };
  add("--max-models", limits.models, "Models that may be loaded, versions counted one by one");
  add("--max-waiting", limits.waiting,
      "Requests of a model that may wait for room in its pipeline");
  add_bytes("--max-message", limits.message_bytes, "Bytes of one message");
  add_bytes(
      "--max-inputs", limits.request_bytes,
      "Bytes of the inputs of all requests in progress, and of outputs that nobody has read yet");
  add("--max-connections", limits.connections,
      "Connections of each protocol; fewer where the limit of descriptors (ulimit -n) is low");
  add("--max-streams", limits.streams, "Calls of one connection at a time");
  add("--max-sequences", limits.sequences, "Open sequences of a model with states");
}

constexpr const char* kServeFooter =
    R"(Examples:
  penstock serve resnet50.onnx                         over gRPC on 127.0.0.1:8001
  penstock serve seg=a.penstock seg:2=b.penstock.zip   two versions of one model
  penstock serve vad.onnx --constant sr=16000 --state stateN=state
                                                       a model with a bound input and a state
  penstock serve app.yaml --listen 127.0.0.1:0         on a free port, which is printed
  penstock serve app.yaml --http 127.0.0.1:8000        over HTTP too

SIGHUP reads the models again, without a lost request. SIGTERM ends the requests in progress, takes
no new ones, and leaves.)";

constexpr const char* kWorkerFooter =
    R"(Examples:
  penstock worker                                      for callers of this machine, on 127.0.0.1:8001
  penstock worker --listen 0.0.0.0:8001 --tls-certificate me.pem --tls-key me.key \
      --tls-client-authority cluster.pem               for a cluster's other machines
  taskset -c 2,3 penstock worker                       on two CPUs alone

A worker compiles what callers send with its own engines, on the CPUs that it was started with.
SIGTERM ends the calls in progress, takes no new ones, and leaves.)";

void add_security(CLI::App* command, ServeOptions& options) {
  command->add_flag("--insecure", options.all.insecure,
                    "Plain text also where others than this machine can reach the address");
  auto& tls = options.all.tls;
  command->add_option("--tls-certificate", tls.certificate, "The server's certificates (PEM)");
  command->add_option("--tls-key", tls.key, "The certificate's key (PEM)");
  command->add_option("--tls-client-authority", tls.client_authority,
                      "Each client must show a certificate that these signed (PEM)");
  command->add_option("--tokens", options.all.tokens, "Who may do what: a file of hashed tokens");
}

/// What serve and worker have in common.
void add_server(CLI::App* command, ServeOptions& options) {
  command
      ->add_option(
          "models", options.all.models,
          "[NAME[:VERSION]=]PATH of a package (a folder or .zip), an application (.yaml) or "
          "a model (.onnx); NAME is the file's and VERSION 1 where they are not said")
      ->required(!options.worker);
  add_list(
      command, "--constant", options.constants,
      "Bind an input of a model (.onnx) that never changes, and fold what hangs on it: sr=16000, "
      "mask=mask.npy; of several models: MODEL:sr=16000")
      ->type_name("[MODEL:]NAME=VALUE")
      ->check(taken_by(graph::parse_constant));
  add_list(
      command, "--state", options.states,
      "OUT=IN or OUT=IN:FILE.npy of a model (.onnx): output OUT of a request is input IN of the "
      "next one of its sequence; of several models: MODEL:OUT=IN")
      ->type_name("[MODEL:]OUT=IN")
      ->check(taken_by(parse_state));
  command
      ->add_option("--listen", options.all.grpc,
                   "HOST:PORT for gRPC, port 0: a free one; or unix:PATH")
      ->capture_default_str()
      ->check(CLI::Validator(listening_problem, "", ""));
  command
      ->add_option("--http", options.all.http,
                   "HOST:PORT for HTTP, with metrics at /metrics; port 0: a free one")
      ->check(taken_by(split_address));
  command->add_option("--access-log", options.all.access_log,
                      "A line of JSON for each request, appended to the file; '-': stdout");
  command->add_option("--trace", options.trace,
                      "Write the last requests and frames to this file at the end, for "
                      "ui.perfetto.dev");
  add_security(command, options);
  add_list(command, "--backend-option", options.engine.options,
           "A setting of an engine's own: onnxruntime:KEY=VALUE")
      ->check(taken_by(parse_backend_option));
  add_native_code_option(command, options.no_native_code);
  command->add_flag(
      "--allow-native-code", options.all.server.uploads_native_code,
      "Models that clients send may bring libraries and Python modules, and options that "
      "name files");
  command
      ->add_option("--patience", options.patience_s,
                   "Seconds that requests in progress have to end when a model or the server goes")
      ->capture_default_str()
      ->check(number_from(0, kMostSeconds));
  add_limits(command, options.all.server.limits);
}

void add_worker(CLI::App* command, ServeOptions& options) {
  const auto add = [&](const char* name, auto& value, const char* description,
                       const CLI::Validator& valid) {
    add_limit(command, name, value, description, valid);
  };
  command->add_option("--cache", options.host.cache,
                      "Folder of the contents that callers send; default: one of the user's cache "
                      "that no other worker has");
  auto& limits = options.host.limits;
  add("--max-cache", limits.content_bytes,
      "Bytes of that folder: what was used last longest ago goes", positive_bytes());
  add("--max-sessions", limits.sessions, "Callers at a time", positive_count());
  add("--max-stages", limits.stages, "Stages of all callers", positive_count());
  add("--max-calls", limits.calls, "Calls in progress of one stream", positive_count());
  add("--max-tickets", limits.ticket_bytes,
      "Bytes of the tensors that stay here until other workers pull them", positive_bytes());
  add("--lease", options.lease_s,
      "Seconds after which a caller that says nothing loses what it has, where it wants no other",
      number_from(0.001, std::chrono::duration<double>(limits.most_lease).count()));
  command->add_option(
      "--peer-authority", options.all.peer_authority,
      "Whose certificates other workers show (PEM); default: --tls-client-authority");
  command->add_option(
      "--peer-token", options.all.peer_token,
      "A file: its first line is the token that is shown to other workers that ask for one");
}

void declare_server(CLI::App* command, Action& chosen, bool worker) {
  const auto options = std::make_shared<ServeOptions>();
  options->worker = worker;
  command->footer(worker ? kWorkerFooter : kServeFooter);
  add_server(command, *options);
  if (worker) add_worker(command, *options);
  set_action(command, chosen, options, run);
}

}  // namespace
}  // namespace penstock::cli

extern "C" void penstock_declare_serve_options(CLI::App& command, penstock::cli::Action& chosen) {
  penstock::cli::declare_server(&command, chosen, false);
}

extern "C" void penstock_declare_worker_options(CLI::App& command, penstock::cli::Action& chosen) {
  penstock::cli::declare_server(&command, chosen, true);
}
