// Accepts connections with Boost.Asio on several threads; reads changed certificates again.
#include "penstock/http/server.h"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/ip/v6_only.hpp>

#include "penstock/base/address.h"
#include "penstock/base/thread.h"
#include "penstock/http/connection.h"
#include "penstock/http/tls.h"
#include "penstock/http/tls_check.h"

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
  void close() {
    error_code ignored;
    const std::scoped_lock lock(closing);
    acceptor.close(ignored);
    turn.cancel();
  }

  std::mutex closing;  // Who accepts again where memory was refused is not on the strand.
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
  class Waiting;

  State(Options options, Router router)
      : core(std::make_shared<Core>(std::move(options), std::move(router))),
        strand(asio::make_strand(core->context)),
        certificates(strand),
        work(core->context.get_executor()) {}

  Status listen();
  Status load_certificates();
  void accept(const std::shared_ptr<Door>& door);
  void accept_again(const std::shared_ptr<Door>& door) noexcept;
  void take(const std::shared_ptr<Door>& door, error_code failed, Socket socket);
  void look_for_certificates();
  void run();

  std::shared_ptr<Core> core;
  Strand strand;  // Of all that follows here, once the threads run.
  std::list<std::shared_ptr<Door>> doors;
  asio::steady_timer certificates;  // To look whether they have changed.
  asio::executor_work_guard<asio::io_context::executor_type> work;
  std::vector<std::thread> threads;
  std::string address;
  std::shared_ptr<TlsContext> tls;  // Null: plain text.
  std::optional<TlsWatch> watch;    // Of its files.
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
    if (!doors.empty()) endpoint.port(doors.front()->acceptor.local_endpoint().port());
    doors.push_back(std::make_shared<Door>(strand));
    const error_code cannot = doors.back()->open(endpoint, endpoints.size() > 1);
    if (!cannot) continue;
    doors.pop_back();
    failed = cannot;
    if (failed == asio::error::address_in_use) return cannot_listen(wanted, failed);
  }
  if (doors.empty()) return cannot_listen(wanted, failed);  // Else this system lacks one, as IPv6.
  address = concat(doors.front()->acceptor.local_endpoint());
  return {};
}

Status Server::State::load_certificates() {
  if (!core->options.tls) return {};
  if (!watch) watch.emplace(*core->options.tls);
  PENSTOCK_TRY(const auto texts, watch->look());
  if (texts) {
    const bool again = tls != nullptr;
    PENSTOCK_TRY(tls, make_tls(*core->options.tls, *texts));
    if (again && core->options.say) core->options.say("certificates read again");
  }
  return {};
}

void Server::State::look_for_certificates() {
  if (tls == nullptr || !doors.front()->acceptor.is_open()) return;
  certificates.expires_after(kLookForCertificates);
  certificates.async_wait([this](error_code failed) {
    if (failed) return;
    const Status loaded = load_certificates();
    if (!loaded && core->options.say) {
      core->options.say(
          concat("the certificates read before still hold: ", loaded.error().message()));
    }
    look_for_certificates();
  });
}

/// What is told of the next client. Where it goes untold, as memory for that one was refused, the
/// door accepts again.
class Server::State::Waiting {
 public:
  Waiting(State* state, const std::shared_ptr<Door>& door) : state_(state), door_(door) {}
  Waiting(Waiting&&) noexcept = default;
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  Waiting& operator=(Waiting&&) = delete;
  ~Waiting() {
    if (const auto door = let_go()) state_->accept_again(door);
  }
  void operator()(error_code failed, Socket socket) {
    if (const auto door = let_go()) state_->take(door, failed, std::move(socket));
  }
  /// The time to accept again has come.
  void operator()(error_code cancelled) {
    const auto door = let_go();
    if (door != nullptr && !cancelled) state_->accept_again(door);
  }
  std::shared_ptr<Door> let_go() { return std::exchange(door_, {}).lock(); }

 private:
  State* const state_;        // While there is the door.
  std::weak_ptr<Door> door_;  // Empty: it was told.
};

void Server::State::accept(const std::shared_ptr<Door>& door) {
  const std::scoped_lock lock(door->closing);
  if (!door->acceptor.is_open()) return;
  Waiting waiting(this, door);
  try {
    door->acceptor.async_accept(asio::make_strand(core->context), std::move(waiting));
  } catch (...) {
    waiting.let_go();
    throw;
  }
}

/// Nobody would be heard any more without it: tries until there is memory for it.
void Server::State::accept_again(const std::shared_ptr<Door>& door) noexcept {
  for (;;) {
    try {
      return accept(door);
    } catch (const std::bad_alloc&) {
      std::this_thread::sleep_for(kRetryAccept);
    }
  }
}

void Server::State::take(const std::shared_ptr<Door>& door, error_code failed, Socket socket) {
  if (failed == asio::error::operation_aborted || !door->acceptor.is_open()) return;
  if (failed) {  // No descriptors are left, or the client has gone: there may be some soon.
    door->turn.expires_after(kRetryAccept);
    door->turn.async_wait(Waiting(this, door));
    return;
  }
  accept_again(door);  // Before what may throw.
  const auto executor = socket.get_executor();
  asio::post(executor, [core = core, tls = tls, socket = std::move(socket)]() mutable {
    std::make_shared<Connection>(std::move(core), std::move(socket), std::move(tls))->start();
  });
}

void Server::State::run() {
  while (true) {
    try {
      core->context.run();
      return;
    } catch (const std::exception& error) {  // Memory ran out for one connection: the others go on.
      try {
        if (core->options.say) core->options.say(concat("a request was lost: ", error.what()));
      } catch (...) {  // Nor is there any to say so.
      }
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
  for (const auto& door : state->doors) state->accept(door);
  std::unique_ptr<Server> server(new Server(std::move(state)));  // Ends the threads that there are.
  auto& threads = server->state_->threads;
  for (int i = 0; i < server->state_->core->options.threads; ++i) {
    std::thread thread;
    PENSTOCK_CHECK_OK(start_thread(thread, [state = server->state_.get()] { state->run(); }));
    threads.push_back(std::move(thread));
  }
  return server;
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
    for (const auto& door : state.doors) door->close();
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
