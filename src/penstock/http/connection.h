// Connection: one client's requests, one after the other, by a strand of its own.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include "penstock/http/core.h"
#include "penstock/http/exchange.h"
#include "penstock/http/wire.h"

namespace penstock::http {

namespace beast = boost::beast;
using Clock = std::chrono::steady_clock;

/// Lives as long as an operation on its wire or timer is under way, or an Exchange holds it.
/// \threads  all runs on the strand of its socket, but for what Closable and Outlet declare.
class Connection final : public Outlet,
                         public Closable,
                         public std::enable_shared_from_this<Connection> {
 public:
  /// `tls` null: plain text.
  Connection(std::shared_ptr<Core> core, Socket accepted, std::shared_ptr<TlsContext> tls);
  ~Connection() override { core_->leave(this); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void start();  ///< The first call.

  // Closable
  void stop() override;
  void close() override;

  // Outlet
  void answer(Response response, bool streams) override;
  void append(std::string text) override;
  void end_stream() override;
  /// Whoever reads or writes learns of it as if the client had left. Needs no memory.
  void abandon() noexcept override;

 private:
  static constexpr std::size_t kStep = 1024;  ///< Bytes that an idle connection has room for.

  /// What the connection waits for.
  enum class Phase : std::uint8_t {
    kHandshake,
    kIdle,  ///< The next request's first byte.
    kHead,  ///< The rest of its headers.
    kBody,
    kHandling,   ///< The answer.
    kWriting,    ///< The client, to take the answer.
    kStreaming,  ///< More of the stream.
    kLingering,  ///< The client, to see that nothing more comes.
    kShut,
  };

  std::shared_ptr<Connection> shared() { return shared_from_this(); }
  [[nodiscard]] const Limits& limits() const { return core_->options.limits; }
  Socket& socket() { return wire_.socket(); }

  // Beginning.
  /// There are too many connections: says so as far as that costs nothing.
  void turn_away();
  /// The client asked in plain text, and is told so in plain text: it could read no other.
  void ask_for_tls();
  void shake(error_code failed);

  // Time.
  void arm(std::chrono::milliseconds timeout, Phase phase);
  void disarm(Phase phase);
  [[nodiscard]] std::chrono::milliseconds time_for(std::size_t bytes) const;
  /// The peer let its time pass. Who has begun a request is told; its read ends by this.
  void run_out();

  // Reading.
  void next();  ///< Waits for a request.
  /// Reads the next request's first bytes, or sees that the client leaves; also while the answer to
  /// the one before is awaited. At most one such read is under way.
  void watch();
  void seen(error_code failed);
  /// Whether the answer is there whole, and goes out or is about to.
  [[nodiscard]] bool is_answered() const;
  void read_head();
  void take_head(error_code failed);
  void route();  ///< Finds the handler, and asks its gate before any of the body is read.
  [[nodiscard]] Response too_long() const;
  /// Goes on once the client knows that its body is wanted, if it asked.
  template <typename Then>
  void invite(Then then);
  /// Of a known length: from the wire to where it stays, without a copy.
  void read_body(std::uint64_t length);
  void read_rest();
  void read_chunked();
  void read_chunks();
  void take_chunks();
  void end_body(error_code failed);
  /// Whether unpacking or parsing the body may take long.
  [[nodiscard]] bool is_costly() const;
  void take_turn();
  void take_body();
  /// For the access log and the answer, as the handler takes the request away.
  void note_request();
  void handle();

  // Writing.
  /// Refuses what was not read to its end: the connection ends with it.
  void refuse(Response response);
  void reply_at_once(Response response);
  void respond(Response response, bool streams);
  void begin_stream();
  void pump();  ///< Writes what waits of the stream.

  // Ending.
  void finish();  ///< The exchange is over.
  /// Bytes that nobody reads would make the system drop the answer: waits until the client has it.
  void linger();
  void discard(std::size_t discarded);
  /// The client has left, or is made to. What is being written ends by itself then.
  void depart();
  void break_off();  ///< The answer could not be written.
  void cut_off();
  void shut();
  /// Where there is no memory to go on the client is not left waiting.
  template <typename Step>
  void or_depart(Step step) {
    try {
      step();
    } catch (...) {
      depart();
      throw;
    }
  }

  /// A body without a known length, on its way in.
  struct Chunked {
    using Parser = beast::http::request_parser<beast::http::string_body>;
    Chunked(std::shared_ptr<ByteBudget> budget,
            beast::http::request_parser<beast::http::empty_body>&& head)
        : lease(std::make_shared<Lease>(std::move(budget))), parser(std::move(head)) {}
    std::shared_ptr<Lease> lease;
    Parser parser;
  };

  const std::shared_ptr<Core> core_;
  Wire wire_;
  std::mutex closing_;  // Of the wire: any thread may abandon it.
  asio::steady_timer timer_;
  beast::flat_buffer buffer_;  // What was read and not yet used.
  Peer peer_;

  Phase phase_ = Phase::kIdle;
  bool watching_ = false, writing_ = false, late_ = false, stopping_ = false, keep_alive_ = true;
  std::optional<beast::http::request_parser<beast::http::empty_body>> parser_;
  std::unique_ptr<Chunked> chunked_;
  Request request_;
  const Route* route_ = nullptr;
  std::weak_ptr<Exchange> exchange_;

  std::string method_;
  unsigned version_ = 11;
  Response response_;  // Being written.
  std::string out_;    // Its head, or the stream's next bytes.
  std::deque<std::string> chunks_;
  bool streams_ = false, chunked_out_ = false, stream_ended_ = false;

  Clock::time_point began_ = Clock::now();
  std::uint64_t request_bytes_ = 0;
  Served served_;
};

}  // namespace penstock::http
