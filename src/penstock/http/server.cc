// Accepts connections with Boost.Asio on several threads; reads changed certificates again.
#include "penstock/http/server.h"

#include <thread>
#include <utility>
#include <vector>

#include "penstock/base/address.h"
#include "penstock/http/connection.h"

namespace penstock::http {
namespace {

using asio::ip::tcp;

constexpr auto kLookForCertificates = std::chrono::seconds(1);
constexpr auto kRetryAccept = std::chrono::milliseconds(100);

Error cannot_listen(const std::string& address, const error_code& failed) {
  return make_error(Code::kUnavailable, "cannot listen on '", address, "': ", failed.message());
}

}  // namespace

struct Server::State {
  State(Options options, Router router)
      : core(std::make_shared<Core>(std::move(options), std::move(router))),
        strand(asio::make_strand(core->context)),
        acceptor(strand),
        turn(strand),
        certificates(strand),
        work(core->context.get_executor()) {}

  Status listen();
  Status load_certificates();
  void accept();
  void take(error_code failed, Socket socket);
  void look_for_certificates();
  void run();

  std::shared_ptr<Core> core;
  Strand strand;  // Of all that follows here, once the threads run.
  asio::basic_socket_acceptor<tcp, Strand> acceptor;
  asio::steady_timer turn;          // To accept again, where the system could not.
  asio::steady_timer certificates;  // To look whether they have changed.
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::vector<std::thread> threads;
  std::string address;
  std::shared_ptr<TlsContext> tls;  // Null: plain text.
  std::string tls_stamp;
  bool stopped = false;
};

Status Server::State::listen() {
  const auto& wanted = core->options.address;
  PENSTOCK_TRY(const HostAndPort parts, split_address(wanted));
  error_code failed;
  tcp::resolver resolver(core->context);
  const auto found = resolver.resolve(parts.host, parts.port, tcp::resolver::passive, failed);
  if (failed) return cannot_listen(wanted, failed);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed) return cannot_listen(wanted, failed);
  address = concat(acceptor.local_endpoint());
  return {};
}

Status Server::State::load_certificates() {
  if (!core->options.tls) return {};
  tls_stamp = stamp_of(*core->options.tls);
  PENSTOCK_TRY(tls, load_tls(*core->options.tls));
  return {};
}

void Server::State::look_for_certificates() {
  if (tls == nullptr || !acceptor.is_open()) return;
  certificates.expires_after(kLookForCertificates);
  certificates.async_wait([this](error_code failed) {
    if (failed) return;
    if (stamp_of(*core->options.tls) != tls_stamp) {
      const Status loaded = load_certificates();
      if (core->options.say) {
        core->options.say(
            loaded ? "certificates read again"
                   : concat("the certificates read before still hold: ", loaded.error().message()));
      }
    }
    look_for_certificates();
  });
}

void Server::State::accept() {
  acceptor.async_accept(asio::make_strand(core->context), [this](error_code failed, Socket socket) {
    take(failed, std::move(socket));
  });
}

void Server::State::take(error_code failed, Socket socket) {
  if (failed == asio::error::operation_aborted || !acceptor.is_open()) return;
  if (failed) {  // No descriptors are left, or the client has gone: there may be some soon.
    turn.expires_after(kRetryAccept);
    turn.async_wait([this](error_code cancelled) {
      if (!cancelled) accept();
    });
    return;
  }
  const auto executor = socket.get_executor();
  asio::post(executor, [core = core, tls = tls, socket = std::move(socket)]() mutable {
    if (tls == nullptr) {
      std::make_shared<Connection<Socket>>(std::move(core), std::move(socket), nullptr)->start();
    } else {
      std::make_shared<Connection<Secure>>(std::move(core), std::move(socket), tls)->start();
    }
  });
  accept();
}

void Server::State::run() {
  while (true) {
    try {
      core->context.run();
      return;
    } catch (const std::exception& error) {  // Memory ran out for one connection: the others go on.
      if (core->options.say) core->options.say(concat("a request was lost: ", error.what()));
    }
  }
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  stop(std::chrono::nanoseconds(0));
}

Result<std::unique_ptr<Server>> Server::start(Options options, Router router) {
  auto state = std::make_unique<State>(std::move(options), std::move(router));
  PENSTOCK_CHECK_OK(state->load_certificates());
  PENSTOCK_CHECK_OK(state->listen());
  state->look_for_certificates();
  state->accept();
  for (int i = 0; i < state->core->options.threads; ++i) {
    state->threads.emplace_back([state = state.get()] { state->run(); });
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

const std::string& Server::address() const {
  return state_->address;
}

std::size_t Server::connections() const {
  return state_->core->connections();
}

bool Server::stop(std::chrono::nanoseconds timeout) {
  auto& state = *state_;
  if (std::exchange(state.stopped, true)) return true;
  auto& core = *state.core;
  asio::post(state.strand, [&state] {
    error_code ignored;
    state.acceptor.close(ignored);
    state.turn.cancel();
    state.certificates.cancel();
  });
  core.stop_all([](Closable& connection) { connection.stop(); });
  const bool ended = core.wait_until_empty(timeout);
  if (!ended) core.stop_all([](Closable& connection) { connection.close(); });
  state.work.reset();
  for (auto& thread : state.threads) thread.join();
  core.end();
  return ended;
}

}  // namespace penstock::http
