// Resolves, connects, writes and reads with Boost.Beast, within one time limit for all of it.
#include "penstock/http/get.h"

#include <algorithm>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include "penstock/base/address.h"

namespace penstock::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;
using boost::system::error_code;

/// Whether an answer is kept whole, or told as it comes.
enum class Kept { kWhole, kAsItComes };

/// The steps of one request, one after the other; the first that fails is the last.
class Asking {
 public:
  Asking(HostAndPort to, const std::string& target, const std::vector<Header>& headers, Kept kept)
      : to_(std::move(to)), kept_(kept), resolver_(context_), stream_(context_) {
    request_ = {beast::http::verb::get, target, 11};
    request_.set(beast::http::field::host, to_.host + ":" + to_.port);
    request_.set(beast::http::field::connection, "close");
    for (const auto& header : headers) request_.set(header.name, header.value);
    constexpr std::uint64_t kMost = 256U << 20U;
    if (kept == Kept::kWhole) parser_.body_limit(kMost);
    if (kept == Kept::kAsItComes) parser_.body_limit(boost::none);
    resolve();
  }

  /// Goes on until it is done, or so long. \returns whether it is done.
  bool run(std::chrono::nanoseconds time, const std::function<bool()>& stopped) {
    const auto end = std::chrono::steady_clock::now() + time;
    constexpr auto kStep = std::chrono::milliseconds(50);  // Between looks at `stopped`.
    while (!done_ && std::chrono::steady_clock::now() < end && !(stopped && stopped())) {
      context_.run_until(std::min(end, std::chrono::steady_clock::now() + kStep));
    }
    return done_;
  }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] error_code failed() const { return failed_; }
  Answer answer() {
    return {static_cast<int>(parser_.get().result_int()), std::move(parser_.get().body())};
  }
  /// What has come of an answer that is told as it comes, and was not taken away.
  std::string& heard() { return heard_; }

 private:
  void resolve() {
    resolver_.async_resolve(to_.host, to_.port, [this](error_code failed, const auto& found) {
      if (failed) return end(failed);
      stream_.async_connect(found, [this](error_code refused, const auto&) {
        if (refused) return end(refused);
        write();
      });
    });
  }
  /// A server that turns clients away may have answered, and closed, before all is written.
  void write() {
    beast::http::async_write(stream_, request_, [this](error_code, std::size_t) {
      if (kept_ == Kept::kAsItComes) return read_some();
      beast::http::async_read(stream_, buffer_, parser_,
                              [this](error_code failed, std::size_t) { end(failed); });
    });
  }
  void read_some() {
    beast::http::async_read_some(stream_, buffer_, parser_, [this](error_code failed, std::size_t) {
      heard_ += std::exchange(parser_.get().body(), {});
      if (failed || parser_.is_done()) return end(failed);
      read_some();
    });
  }
  void end(error_code failed) {
    failed_ = failed;
    done_ = true;
  }

  const HostAndPort to_;
  const Kept kept_;
  asio::io_context context_;
  tcp::resolver resolver_;
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  beast::http::request<beast::http::empty_body> request_;
  beast::http::response_parser<beast::http::string_body> parser_;
  std::string heard_;
  error_code failed_;
  bool done_ = false;
};

}  // namespace

Result<Answer> get(const std::string& address, const std::string& target,
                   const std::vector<Header>& headers, std::chrono::nanoseconds timeout,
                   const std::function<bool()>& stopped) {
  PENSTOCK_TRY(auto to, split_address(address));
  Asking asking(std::move(to), target, headers, Kept::kWhole);
  const auto failed = asking.run(timeout, stopped) ? asking.failed() : beast::error::timeout;
  if (failed == beast::error::timeout) {
    return make_error(Code::kDeadlineExceeded, "'", address, "' does not answer");
  }
  if (failed) {
    return make_error(Code::kUnavailable, "nobody answers at '", address, "': ", failed.message());
  }
  return asking.answer();
}

class Listener::State {
 public:
  State(HostAndPort to, const std::string& target, const std::vector<Header>& headers)
      : asking_(std::move(to), target, headers, Kept::kAsItComes) {}

  bool wait_for(std::string_view words, std::chrono::nanoseconds time,
                const std::function<bool()>& stopped) {
    bool found = finds(words);
    asking_.run(time, [&] {
      found = found || finds(words);
      return found || (stopped && stopped());
    });
    return found || finds(words);
  }
  [[nodiscard]] bool ended() const { return asking_.done(); }

 private:
  /// Forgets what is before their end, or before what may be their begin.
  bool finds(std::string_view words) {
    auto& heard = asking_.heard();
    const auto at = heard.find(words);
    const bool found = at != std::string::npos;
    heard.erase(
        0, found ? at + words.size() : heard.size() - std::min(heard.size(), words.size() - 1));
    return found;
  }

  Asking asking_;
};

Listener::Listener(std::unique_ptr<State> state) : state_(std::move(state)) {}
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;
Listener::~Listener() = default;

Result<Listener> Listener::start(const std::string& address, const std::string& target,
                                 const std::vector<Header>& headers) {
  PENSTOCK_TRY(auto to, split_address(address));
  return Listener(std::make_unique<State>(std::move(to), target, headers));
}

bool Listener::wait_for(std::string_view words, std::chrono::nanoseconds time,
                        const std::function<bool()>& stopped) {
  return state_->wait_for(words, time, stopped);
}

bool Listener::ended() const {
  return state_->ended();
}

}  // namespace penstock::http
