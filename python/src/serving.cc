#include "serving.h"

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "errors.h"
#include "gil.h"
#include "penstock/base/thread.h"
#include "penstock/gateway/serving.h"
#include "request.h"
#include "to_object.h"

namespace penstock::python {
namespace {

using Served = std::unique_ptr<gateway::Serving, DeletedWithoutGil>;

/// A limit that was not given stays what it is.
template <typename T>
Status set_limit(const Options& options, const char* name, T& limit) {
  const auto given = options.maybe<std::int64_t>(name);
  if (!given) return {};
  if (*given < 1) return invalid_argument(name, ": expected 1 or more, found ", *given);
  limit = static_cast<T>(*given);
  return {};
}

Status set_limits(const Options& options, serve::Limits& limits) {
  PENSTOCK_CHECK_OK(set_limit(options, "max_models", limits.models));
  PENSTOCK_CHECK_OK(set_limit(options, "max_waiting", limits.waiting));
  PENSTOCK_CHECK_OK(set_limit(options, "max_message", limits.message_bytes));
  PENSTOCK_CHECK_OK(set_limit(options, "max_inputs", limits.request_bytes));
  PENSTOCK_CHECK_OK(set_limit(options, "max_connections", limits.connections));
  PENSTOCK_CHECK_OK(set_limit(options, "max_streams", limits.streams));
  return set_limit(options, "max_sequences", limits.sequences);
}

/// "constants" and "states", tuples that begin with the model's name: empty for the only one.
Result<std::vector<serve::NamedSettings>> to_settings(const Options& options) {
  std::vector<serve::NamedSettings> all;
  for (const nb::handle constant : options.get<nb::list>("constants")) {
    const auto name = text_of(constant[1]);
    auto& named = all.emplace_back(text_of(constant[0]), app::ModelSettings());
    PENSTOCK_TRY(named.settings.constants[name], to_input_value(name, constant[2]));
  }
  using State = std::tuple<std::string, std::string, std::string, std::string>;
  for (const auto& [model, from, to, initial] : options.get<std::vector<State>>("states")) {
    auto& named = all.emplace_back(model, app::ModelSettings());
    named.settings.states.push_back({from, to, initial});
  }
  return all;
}

Result<gateway::Options> to_serving(const Options& options) {
  gateway::Options all;
  all.models = options.get<std::vector<std::string>>("models");
  PENSTOCK_TRY(all.settings, to_settings(options));
  all.grpc = options.get<std::string>("listen");
  all.http = options.get<std::string>("http");
  all.tls = {.certificate = options.get<std::string>("tls_certificate"),
             .key = options.get<std::string>("tls_key"),
             .client_authority = options.get<std::string>("tls_client_authority")};
  all.insecure = options.get<bool>("insecure");
  all.tokens = options.get<std::string>("tokens");
  all.access_log = options.get<std::string>("access_log");
  auto& server = all.server;
  server.native_code = options.get<bool>("native_code");
  server.uploads_native_code = options.get<bool>("allow_native_code");
  server.trace = options.get<bool>("trace");
  const auto patience = options.get<double>("patience");
  if (!(patience >= 0)) return invalid_argument("patience: expected 0 or more, found ", patience);
  server.patience =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(patience));
  PENSTOCK_TRY(server.backend_options, to_backend_options(options, "backend_options"));
  PENSTOCK_CHECK_OK(set_limits(options, server.limits));
  return all;
}

/// Waits for it without the GIL, so that Ctrl-C is seen; then `given_up` is set.
template <typename T>
T await(std::future<T> future, std::atomic<bool>& given_up) {
  try {
    const Status waited = wait_in_slices(std::chrono::nanoseconds::max(),
                                         [&](std::chrono::nanoseconds slice) -> Status {
                                           if (future.wait_for(slice) == std::future_status::ready)
                                             return {};
                                           return make_error(Code::kDeadlineExceeded, "not yet");
                                         });
    check(waited);
  } catch (...) {
    given_up = true;
    without_gil([&] { future.wait(); });
    throw;
  }
  return future.get();
}

/// A running server. Its methods leave the GIL alone while they wait.
class Server {
 public:
  Server(Served served, std::vector<Callable> callables)
      : callables_(std::move(callables)), served_(std::move(served)) {}

  [[nodiscard]] gateway::Serving& get() const { return *served_; }

 private:
  std::vector<Callable> callables_;  // What the models call.
  Served served_;
};

nb::object serve(nb::dict dict) {
  const Options options(std::move(dict));
  auto all = value_or_raise(to_serving(options));
  auto callables = value_or_raise(to_callables(options.get<nb::list>("functions")));
  for (const auto& callable : callables) all.server.functions.push_back(callable.function);
  const auto given_up = std::make_shared<std::atomic<bool>>(false);
  all.server.stopped = [given_up] { return given_up->load(); };
  all.server.warn = [](const std::string& text) {
    const WithGil gil;
    warn(text);
  };
  auto future =
      value_or_raise(start_async([&all] { return gateway::start_serving(all, backends()); }));
  Served served(value_or_raise(await(std::move(future), *given_up)).release());
  auto server = std::make_unique<Server>(std::move(served), std::move(callables));
  return to_object(std::move(server));
}

void reload(const Server& server) {
  const auto errors = without_gil([&] { return server.get().reload(); }).errors;
  if (!errors.empty()) raise(errors.front());
}

std::uint64_t write_trace(const Server& server, nb::handle file) {
  const std::filesystem::path path = text_of(file);
  return value_or_raise(without_gil([&] { return server.get().write_trace(path); }));
}

}  // namespace

void bind_serving(nb::module_& module) {
  nb::class_<Server>(module, "Server")
      .def_prop_ro("grpc", [](const Server& server) { return server.get().grpc_address(); })
      .def_prop_ro("http", [](const Server& server) { return server.get().http_address(); })
      .def("models", [](const Server& server) { return server.get().models(); })
      .def("reload", &reload)
      .def("write_trace", &write_trace, nb::arg("file"))
      .def("stop",
           [](const Server& server) { return without_gil([&] { return server.get().stop(); }); });
  module.def("serve", &serve, nb::arg("options"));
}

}  // namespace penstock::python
