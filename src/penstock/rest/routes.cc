// Adds each path with its method and right; inference answers by callback, loads on another thread.
#include "penstock/rest/routes.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "penstock/http/pages.h"
#include "penstock/http/unpack.h"
#include "penstock/metrics/families.h"
#include "penstock/rest/answers.h"
#include "penstock/rest/infer.h"
#include "penstock/rest/metrics.h"

namespace penstock::rest {
namespace {

using http::Request;
using http::Responder;
using http::Response;
using serve::Right;

Response json_response(std::string text, int status = 200) {
  return http::text_response(status, "application/json", std::move(text));
}
Response empty_response() {
  return {.status = 200};
}
/// Triton's clients read the status, KServe's the body.
Response yes_or_no(const std::string& what, bool is) {
  return json_response(concat("{\"", what, "\":", is ? "true}" : "false}"), is ? 200 : 400);
}

Response to_response(const Status& status) {
  return status ? empty_response() : response_of(status.error());
}

std::string captured(const Request& request, const std::string& name) {
  const auto found = request.captured.find(name);
  return found == request.captured.end() ? "" : found->second;
}

std::string header_of(const Request& request, std::string_view name) {
  const auto* value = http::find_header(request.headers, name);
  return value == nullptr ? "" : *value;
}

/// How much of the body is JSON; empty: it is the bytes of one tensor.
Result<std::optional<std::size_t>> json_bytes_of(const Request& request) {
  constexpr std::string_view kHeader = "Inference-Header-Content-Length";
  const auto* text = http::find_header(request.headers, kHeader);
  if (text == nullptr) return std::optional(request.body.size);
  std::size_t bytes = 0;
  const char* end = text->data() + text->size();
  const auto [at, failed] = std::from_chars(text->data(), end, bytes);
  if (failed != std::errc() || at != end) {
    return invalid_argument("header '", kHeader, "': expected a number of bytes, found '", *text,
                            "'");
  }
  return bytes == 0 ? std::optional<std::size_t>() : std::optional(bytes);
}

/// The name of the client that has the right.
Result<std::string> check_client(const serve::Access& access, Right right, const Request& request) {
  const std::string authorization = header_of(request, "authorization");
  return access.check(right, {.token = std::string(serve::bearer_token(authorization)),
                              .certificate_name = request.peer.certificate_name,
                              .local = request.peer.local});
}

class Routes {
 public:
  Routes(serve::Server& server, const serve::Access& access, serve::Worker& worker,
         std::function<void(metrics::Families&)> figures, bool at_home)
      : server_(server),
        access_(access),
        worker_(worker),
        figures_(std::move(figures)),
        at_home_(at_home) {}

  http::Router make() && {
    add_health();
    add_models();
    add_repository();
    add_shared_memory();
    add_settings();
    return std::move(router_);
  }

 private:
  using Answer = std::function<Response(const Request&)>;

  /// Who may ask is found before the body is read.
  http::Gate gate(Right right) {
    return [&access = access_, right,
            at_home = at_home_](Request& request) -> std::optional<Response> {
      const std::string authorization = header_of(request, "authorization");
      if (serve::bearer_token(authorization).empty() || !access.takes_tokens()) {
        if (auto refused = http::refuse_page(request, at_home)) return refused;
      }
      auto client = check_client(access, right, request);
      if (!client) return response_of(client.error());
      request.client = *std::move(client);
      return std::nullopt;
    };
  }

  void add(const char* method, const std::string& path, std::optional<Right> right,
           http::Handler handler) {
    router_.add(method, path, right ? gate(*right) : http::Gate(), std::move(handler));
  }
  void answer(const char* method, const std::string& path, std::optional<Right> right,
              const Answer& made) {
    add(method, path, right, [made](const Request& request, const Responder& responder) {
      responder.send(made(request));
    });
  }
  /// With the version in the path, and without.
  void answer_model(const char* method, const std::string& end, std::optional<Right> right,
                    const Answer& made) {
    answer(method, "/v2/models/{model}" + end, right, made);
    answer(method, "/v2/models/{model}/versions/{version}" + end, right, made);
  }

  void add_health() {
    answer("GET", "/v2/health/live", std::nullopt,
           [&server = server_](const Request&) { return yes_or_no("live", server.live()); });
    answer("GET", "/v2/health/ready", std::nullopt,
           [&server = server_](const Request&) { return yes_or_no("ready", server.ready()); });
    answer_model("GET", "/ready", std::nullopt, [&server = server_](const Request& request) {
      const auto model = captured(request, "model");
      const auto ready = server.model_ready(model, captured(request, "version"));
      if (!ready) return response_of(ready.error());
      return *ready ? json_response(model_ready(model))
                    : http::error_response(400, "Model version not ready");
    });
  }

  void add_models() {
    answer("GET", "/v2", Right::kInfer,
           [](const Request&) { return json_response(server_metadata()); });
    answer("GET", "/v2/models/stats", Right::kInfer,
           [this_server = &server_](const Request& request) {
             return statistics(*this_server, request);
           });
    answer_model("GET", "", Right::kInfer, [&server = server_](const Request& request) {
      return described(server, request, model_metadata);
    });
    answer_model("GET", "/config", Right::kInfer, [&server = server_](const Request& request) {
      return described(server, request, model_config);
    });
    answer_model("GET", "/stats", Right::kInfer, [&server = server_](const Request& request) {
      return statistics(server, request);
    });
    for (const char* path :
         {"/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"}) {
      add("POST", path, Right::kInfer,
          [&server = server_, &access = access_](const Request& request,
                                                 const Responder& responder) {
            infer(server, access, request, responder);
          });
    }
  }

  /// \error  the path names a model that is not there.
  static Status check_model(const serve::Server& server, const Request& request) {
    const auto model = captured(request, "model");
    if (!model.empty()) PENSTOCK_CHECK_OK(server.model_ready(model, ""));
    return {};
  }

  static Response described(const serve::Server& server, const Request& request,
                            std::string (*describe)(const serve::ModelDescription&)) {
    const auto model = server.describe(captured(request, "model"), captured(request, "version"));
    return model ? json_response(describe(*model)) : response_of(model.error());
  }

  static Response statistics(const serve::Server& server, const Request& request) {
    const auto all = server.statistics(captured(request, "model"), captured(request, "version"));
    return all ? json_response(statistics_json(*all)) : response_of(all.error());
  }

  static Result<InferBody> read(const serve::Server& server, const serve::Access& access,
                                const Request& request) {
    PENSTOCK_TRY(const auto json_bytes, json_bytes_of(request));
    if (json_bytes) {
      auto read = read_infer(request.body, *json_bytes);
      if (!read || !read->request.uses_regions()) return read;
      const auto may = check_client(access, Right::kSharedMemory, request);
      return may ? std::move(read) : may.error();
    }
    PENSTOCK_TRY(const auto model,
                 server.describe(captured(request, "model"), captured(request, "version")));
    return read_raw_infer(request.body, model);
  }

  /// How the answer is to be written.
  struct Wanted {
    std::string id, encoding;
    std::map<std::string, std::string> notes;
    bool listed = false, all_binary = false;
  };

  static Response reply(const Result<serve::Reply>& reply, const Wanted& wanted) {
    const auto failed = [&](Error error) {
      const Where request(Where::kText, concat("[request id: ", wanted.id, "]"));
      const bool told = std::ranges::find(error.places, request) != error.places.end();
      return response_of(wanted.id.empty() || told ? error : std::move(error).within(request));
    };
    auto response = [&]() -> Response {
      if (!reply) return failed(reply.error());
      auto written = write_reply(*reply, wanted.listed, wanted.all_binary);
      if (!written) return failed(written.error());
      http::pack(*written, wanted.encoding);
      return *std::move(written);
    }();
    response.notes.insert(wanted.notes.begin(), wanted.notes.end());
    return response;
  }

  static void infer(serve::Server& server, const serve::Access& access, const Request& request,
                    const Responder& responder) {
    const auto received = std::chrono::steady_clock::now();
    Wanted wanted{.encoding = header_of(request, "accept-encoding")};
    wanted.notes["model"] = captured(request, "model");
    auto read_body = read(server, access, request);
    if (!read_body) return responder.send(reply(std::move(read_body).error(), wanted));
    auto& asked = read_body->request;
    asked.model = captured(request, "model");
    asked.version = captured(request, "version");
    asked.traceparent = header_of(request, "traceparent");
    asked.connection = request.peer.address;
    // Its patience began with it, too.
    if (asked.deadline) *asked.deadline -= asked.received - received;
    asked.received = received;
    if (!asked.traceparent.empty()) wanted.notes["traceparent"] = asked.traceparent;
    if (!asked.id.empty()) wanted.notes["id"] = asked.id;
    wanted.id = asked.id;
    wanted.listed = !asked.outputs.empty();
    wanted.all_binary = read_body->all_binary;
    const auto call =
        server.infer(std::move(asked), [responder, wanted](const Result<serve::Reply>& outcome) {
          responder.send(reply(outcome, wanted));
        });
    if (call != nullptr) responder.on_gone([call] { call->cancel(); });
  }

  /// By the worker: it takes long.
  void add_slow(const std::string& path, std::function<Status(const Request&)> work) {
    add("POST", path, Right::kLoad,
        [&worker = worker_, work](const Request& request, const Responder& responder) {
          const Status posted = worker.post(
              [work, request, responder] { responder.send(to_response(work(request))); });
          if (!posted) responder.send(response_of(posted.error()));
        });
  }

  void add_repository() {
    answer("POST", "/v2/repository/index", Right::kInfer,
           [&server = server_](const Request& request) {
             const auto only_ready = read_index(request.body);
             if (!only_ready) return response_of(only_ready.error());
             return json_response(index_json(server.index(*only_ready)));
           });
    add_slow("/v2/repository/models/{model}/load",
             [&server = server_](const Request& request) -> Status {
               PENSTOCK_TRY(const auto options, read_load(request.body));
               return server.load(captured(request, "model"), options);
             });
    add_slow("/v2/repository/models/{model}/unload",
             [&server = server_](const Request& request) -> Status {
               return server.unload(captured(request, "model"));
             });
    for (const char* path :
         {"/v2/repository/{repository}/index", "/v2/repository/{repository}/models/{model}/load",
          "/v2/repository/{repository}/models/{model}/unload"}) {
      answer("POST", path, Right::kInfer, [](const Request&) {
        return response_of(
            make_error(Code::kUnimplemented, "'repository_name' specification is not supported"));
      });
    }
  }

  void add_shared_memory() {
    const std::string all = "/v2/systemsharedmemory";
    const std::string one = all + "/region/{region}";
    for (const auto& path : {all + "/status", one + "/status"}) {
      answer("GET", path, Right::kSharedMemory, [&server = server_](const Request& request) {
        const auto regions = server.shared_memory().list(captured(request, "region"));
        return regions ? json_response(regions_json(*regions)) : response_of(regions.error());
      });
    }
    answer("POST", one + "/register", Right::kSharedMemory,
           [&server = server_](const Request& request) {
             const auto region = read_region(request.body, captured(request, "region"));
             return region ? to_response(server.shared_memory().add(*region))
                           : response_of(region.error());
           });
    for (const auto& path : {all + "/unregister", one + "/unregister"}) {
      answer("POST", path, Right::kSharedMemory, [&server = server_](const Request& request) {
        server.shared_memory().remove(captured(request, "region"));
        return empty_response();
      });
    }
    add_device_memory();
  }

  /// There is none, as clients learn that ask.
  void add_device_memory() {
    const std::string all = "/v2/cudasharedmemory";
    const std::string one = all + "/region/{region}";
    answer("GET", all + "/status", Right::kSharedMemory,
           [](const Request&) { return json_response("[]"); });
    answer("GET", one + "/status", Right::kSharedMemory, [](const Request& request) {
      return response_of(not_found("Unable to find cuda shared memory region: '",
                                   captured(request, "region"), "'"));
    });
    for (const auto& path : {all + "/unregister", one + "/unregister"}) {
      answer("POST", path, Right::kSharedMemory, [](const Request&) { return empty_response(); });
    }
    answer("POST", one + "/register", Right::kSharedMemory, [](const Request&) {
      return response_of(make_error(Code::kUnimplemented,
                                    "shared memory of CUDA devices is not supported here; use "
                                    "system shared memory"));
    });
  }

  void add_settings() {
    for (const char* path : {"/v2/trace/setting", "/v2/models/{model}/trace/setting"}) {
      add_setting(path, trace_settings);
    }
    add_setting("/v2/logging", log_settings);
    answer("GET", "/metrics", Right::kAdmin,
           [&server = server_, figures = figures_](const Request&) {
             const auto all = server.statistics("", "");
             if (!all) return response_of(all.error());
             return http::text_response(200, metrics::kContentType, metrics_text(*all, figures));
           });
  }

  /// They are told, and cannot be changed.
  void add_setting(const char* path, std::string (*settings)()) {
    answer("GET", path, Right::kAdmin, [&server = server_, settings](const Request& request) {
      const Status known = check_model(server, request);
      return known ? json_response(settings()) : response_of(known.error());
    });
    answer("POST", path, Right::kAdmin, [&server = server_, settings](const Request& request) {
      const Status known = check_model(server, request);
      if (!known) return response_of(known.error());
      if (request.body.size == 0 || request.body.text() == "{}") return json_response(settings());
      return response_of(
          make_error(Code::kUnimplemented, "settings cannot be changed while the server runs"));
    });
  }

  serve::Server& server_;
  const serve::Access& access_;
  serve::Worker& worker_;
  std::function<void(metrics::Families&)> figures_;
  bool at_home_;
  http::Router router_;
};

}  // namespace

http::Router make_routes(serve::Server& server, const serve::Access& access, serve::Worker& worker,
                         std::function<void(metrics::Families&)> figures, bool at_home) {
  return Routes(server, access, worker, std::move(figures), at_home).make();
}

}  // namespace penstock::rest
