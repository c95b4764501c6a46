// Accepts connections with Boost.Asio on several threads; reads changed certificates again.
#include "penstock/http/server.h"

#include <algorithm>
#include <list>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/ip/v6_only.hpp>

#include "penstock/base/address.h"
#include "penstock/http/connection.h"

namespace penstock::http {
namespace {

using asio::ip::tcp;

constexpr auto kLookForCertificates = std::chrono::seconds(1);
constexpr auto kRetryAccept = std::chrono::milliseconds(100);

Error cannot_listen(const std::string& address, const error_code& failed) {
  std::string reason = failed.message();
  if (failed == asio::error::address_in_use) {
    reason = port_is_taken(address.substr(address.rfind(':') + 1), reason);
  }
  return make_error(Code::kUnavailable, "cannot listen on '", address, "': ", reason);
}

/// Waits for connections at one of the server's addresses.
struct Door {
  explicit Door(const Strand& strand) : acceptor(strand), turn(strand) {}

  error_code open(const tcp::endpoint& endpoint, bool v6_only);

  asio::basic_socket_acceptor<tcp, Strand> acceptor;
  asio::steady_timer turn;  // To accept again, where the system could not.
};

error_code Door::open(const tcp::endpoint& endpoint, bool v6_only) {
  error_code failed;
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed && v6_only && endpoint.protocol() == tcp::v6()) {
    acceptor.set_option(asio::ip::v6_only(true), failed);
  }
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(asio::socket_base::max_listen_connections, failed);
  return failed;
}

}  // namespace

struct Server::State {
  State(Options options, Router router)
      : core(std::make_shared<Core>(std::move(options), std::move(router))),
        strand(asio::make_strand(core->context)),
        certificates(strand),
        work(core->context.get_executor()) {}

  Status listen();
  Status load_certificates();
  void accept(Door& door);
  void take(Door& door, error_code failed, Socket socket);
  void look_for_certificates();
  void run();

  std::shared_ptr<Core> core;
  Strand strand;  // Of all that follows here, once the threads run.
  std::list<Door> doors;
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
  std::vector<tcp::endpoint> endpoints;  // A name may have several addresses, and some twice.
  for (const auto& entry : found) {
    if (std::ranges::find(endpoints, entry.endpoint()) == endpoints.end()) {
      endpoints.push_back(entry.endpoint());
    }
  }
  for (auto& endpoint : endpoints) {
    // Port 0: the one that the first address has got.
    if (!doors.empty()) endpoint.port(doors.front().acceptor.local_endpoint().port());
    const error_code cannot = doors.emplace_back(strand).open(endpoint, endpoints.size() > 1);
    if (!cannot) continue;
    doors.pop_back();
    failed = cannot;
    if (failed == asio::error::address_in_use) return cannot_listen(wanted, failed);
  }
  if (doors.empty()) return cannot_listen(wanted, failed);  // Else this system lacks one, as IPv6.
  address = concat(doors.front().acceptor.local_endpoint());
  return {};
}

Status Server::State::load_certificates() {
  if (!core->options.tls) return {};
  tls_stamp = stamp_of(*core->options.tls);
  PENSTOCK_TRY(tls, load_tls(*core->options.tls));
  return {};
}

void Server::State::look_for_certificates() {
  if (tls == nullptr || !doors.front().acceptor.is_open()) return;
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

void Server::State::accept(Door& door) {
  door.acceptor.async_accept(
      asio::make_strand(core->context),
      [this, &door](error_code failed, Socket socket) { take(door, failed, std::move(socket)); });
}

void Server::State::take(Door& door, error_code failed, Socket socket) {
  if (failed == asio::error::operation_aborted || !door.acceptor.is_open()) return;
  if (failed) {  // No descriptors are left, or the client has gone: there may be some soon.
    door.turn.expires_after(kRetryAccept);
    door.turn.async_wait([this, &door](error_code cancelled) {
      if (!cancelled) accept(door);
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
  accept(door);
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
  for (auto& door : state->doors) state->accept(door);
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
    for (auto& door : state.doors) {
      door.acceptor.close(ignored);
      door.turn.cancel();
    }
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
