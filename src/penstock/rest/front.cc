// Sets up the HTTP server: its limits, access log and routes, and a thread for slow requests.
#include "penstock/rest/front.h"

#include <utility>

#include "penstock/device/address.h"
#include "penstock/http/server.h"
#include "penstock/rest/routes.h"
#include "penstock/serve/server_options.h"
#include "penstock/serve/worker.h"

namespace penstock::rest {
namespace {

void write(serve::AccessLog& log, const http::Served& served) {
  log.write({.protocol = "http",
             .peer = served.peer.address,
             .client = served.client,
             .method = served.method,
             .target = served.target,
             .status = served.status,
             .request_bytes = served.request_bytes,
             .response_bytes = served.response_bytes,
             .duration = served.duration,
             .notes = served.notes});
}

http::Options to_http(Front::Options options, const serve::Limits& limits) {
  http::Options http;
  http.address = std::move(options.address);
  http.tls = std::move(options.tls);
  http.say = std::move(options.say);
  http.limits.body_bytes = limits.message_bytes;
  http.limits.connections = limits.connections;
  http.limits.bodies_bytes = limits.request_bytes;
  if (options.log != nullptr) {
    http.log = [log = options.log](const http::Served& served) { write(*log, served); };
  }
  return http;
}

}  // namespace

struct Front::State {
  serve::Worker worker;
  std::unique_ptr<http::Server> http;
};

Front::Front(std::unique_ptr<State> state) : state_(std::move(state)) {}

Front::~Front() {
  stop(std::chrono::nanoseconds(0));
}

Result<std::unique_ptr<Front>> Front::start(serve::Server& server, const serve::Access& access,
                                            Options options) {
  auto state = std::make_unique<State>();
  PENSTOCK_CHECK_OK(state->worker.start());
  const bool asks_nobody = !options.tls && !access.takes_tokens();
  const bool at_home = asks_nobody && device::is_loopback(options.address);
  auto routes = make_routes(server, access, state->worker, options.figures, at_home);
  PENSTOCK_TRY(state->http, http::Server::start(to_http(std::move(options), server.limits()),
                                                std::move(routes)));
  return std::unique_ptr<Front>(new Front(std::move(state)));
}

const std::string& Front::address() const {
  return state_->http->address();
}

void Front::stop(std::chrono::nanoseconds patience) {
  state_->http->stop(patience);
  state_->worker.stop();
}

}  // namespace penstock::rest
