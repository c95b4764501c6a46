// Connection: one client's requests, one after the other, by a strand of its own.
#pragma once

#include <chrono>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <sys/socket.h>

#include "penstock/http/core.h"
#include "penstock/http/exchange.h"
#include "penstock/http/head.h"
#include "penstock/http/unpack.h"
#include "penstock/http/wire.h"

namespace penstock::http {

namespace beast = boost::beast;
using Clock = std::chrono::steady_clock;

class Connection final : public Outlet,
                         public Closable,
                         public std::enable_shared_from_this<Connection> {
 public:
  static constexpr std::size_t kStep = 1024;  ///< Bytes that an idle connection has room for.
  static constexpr std::size_t kChunk = 64U << 10U;

  /// `tls` null: plain text.
  Connection(std::shared_ptr<Core> core, Socket accepted, std::shared_ptr<TlsContext> tls)
      : core_(std::move(core)),
        wire_(std::move(accepted), std::move(tls)),
        timer_(socket().get_executor()),
        buffer_(core_->options.limits.header_bytes + kChunk) {
    error_code failed;
    socket().set_option(asio::ip::tcp::no_delay(true), failed);
    const auto remote = socket().remote_endpoint(failed);
    if (!failed) peer_ = peer_of(remote);
  }
  ~Connection() override { core_->leave(this); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// The first call.
  void start() {
    if (!core_->enter(this)) return turn_away();
    if (!wire_.secure()) return next();
    arm(limits().handshake_timeout, Phase::kHandshake);
    wire_.async_handshake([self = shared()](error_code failed) { self->shake(failed); });
  }

  // Closable
  void stop() override {
    auto self = weak_from_this().lock();
    if (self == nullptr) return;  // It is being destroyed.
    asio::post(socket().get_executor(), [self = std::move(self)] {
      self->stopping_ = true;
      if (self->phase_ == Phase::kIdle) self->shut();
    });
  }
  void close() override {
    auto self = weak_from_this().lock();
    if (self == nullptr) return;
    asio::post(socket().get_executor(), [self = std::move(self)] {
      self->stopping_ = true;
      self->depart();
    });
  }

  // Outlet
  void answer(Response response, bool streams) override {
    core_->post(socket().get_executor(),
                [self = shared(), streams, response = std::move(response)]() mutable {
                  self->or_depart([&] { self->respond(std::move(response), streams); });
                });
  }
  void append(std::string text) override {
    core_->post(socket().get_executor(), [self = shared(), text = std::move(text)]() mutable {
      self->or_depart([&] {
        self->chunks_.push_back(std::move(text));
        self->pump();
      });
    });
  }
  void end_stream() override {
    core_->post(socket().get_executor(), [self = shared()] {
      self->stream_ended_ = true;
      self->or_depart([&] { self->pump(); });
    });
  }
  /// Whoever reads or writes learns of it as if the client had left. Needs no memory.
  void abandon() noexcept override {
    const std::scoped_lock lock(closing_);
    if (socket().is_open()) ::shutdown(socket().native_handle(), SHUT_RDWR);
  }

 private:
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
  const Limits& limits() const { return core_->options.limits; }
  Socket& socket() { return wire_.socket(); }

  // ------------------------------------------------------------------------------------- Time

  void arm(std::chrono::milliseconds timeout, Phase phase) {
    phase_ = phase;
    timer_.expires_after(timeout);
    timer_.async_wait([self = shared()](error_code failed) {
      if (!failed && self->timer_.expiry() <= Clock::now()) self->run_out();
    });
  }
  void disarm(Phase phase) {
    phase_ = phase;
    timer_.cancel();
  }
  std::chrono::milliseconds time_for(std::size_t bytes) const {
    return limits().transfer_timeout +
           std::chrono::milliseconds(bytes * 1000 / limits().least_bytes_per_second);
  }
  /// The peer let its time pass. Who has begun a request is told; its read ends by this.
  void run_out() {
    if (phase_ == Phase::kHandling || phase_ == Phase::kStreaming) return;  // It came too late.
    late_ = phase_ == Phase::kHead || phase_ == Phase::kBody;
    error_code ignored;
    if (late_) {
      socket().cancel(ignored);
    } else {
      depart();
    }
  }

  // ------------------------------------------------------------------------------------- Reading

  /// There are too many connections: says so as far as that costs nothing.
  void turn_away() {
    if (wire_.secure()) return;
    auto response = error_response(503, "too many connections are open; try again soon");
    response.headers.push_back({"Retry-After", "1"});
    out_ = last_words(response);
    error_code ignored;
    socket().non_blocking(true, ignored);
    socket().write_some(asio::buffer(out_), ignored);
  }

  /// The whole of an answer with which the connection ends.
  static std::string last_words(const Response& response) {
    const auto& text = response.body.front().text;
    return head_of(response, {.length = text.size(), .keep_alive = false}) + text;
  }

  /// The client asked in plain text, and is told so in plain text: it could read no other.
  void ask_for_tls() {
    out_ = last_words(error_response(400, "this port takes HTTPS alone: begin with https://"));
    arm(limits().transfer_timeout, Phase::kWriting);
    asio::async_write(socket(), asio::buffer(out_),
                      [self = shared()](error_code failed, std::size_t) {
                        failed ? self->shut() : self->linger();
                      });
  }

  void shake(error_code failed) {
    if (is_plain_http(failed)) return ask_for_tls();
    if (failed) return shut();
    peer_.certificate_name = wire_.certificate_name();
    next();
  }

  /// Waits for a request.
  void next() {
    if (stopping_) return shut();
    parser_.reset();
    exchange_.reset();
    if (buffer_.size() > 0) return read_head();
    arm(limits().idle_timeout, Phase::kIdle);
    if (!watching_) watch();
  }

  /// Reads the next request's first bytes, or sees that the client leaves; also while the answer to
  /// the one before is awaited. At most one such read is under way.
  void watch() {
    watching_ = true;
    buffer_.shrink_to_fit();
    wire_.async_read_some(buffer_.prepare(kStep),
                          [self = shared()](error_code failed, std::size_t bytes) {
                            self->watching_ = false;
                            self->buffer_.commit(bytes);
                            self->seen(failed);
                          });
  }
  void seen(error_code failed) {
    if (failed) return depart();
    if (phase_ == Phase::kIdle) read_head();
    if (phase_ == Phase::kLingering) discard(0);
  }

  void read_head() {
    arm(limits().header_timeout, Phase::kHead);
    began_ = Clock::now();
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(limits().header_bytes));
    parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // Ours has a sentence.
    beast::http::async_read_header(
        wire_, buffer_, *parser_,
        [self = shared()](error_code failed, std::size_t) { self->take_head(failed); });
  }

  void take_head(error_code failed) {
    if (late_) return refuse(error_response(408, "the request's headers took too long"));
    if (failed == beast::http::error::end_of_stream || (failed && !is_parse_error(failed))) {
      return depart();
    }
    if (failed == beast::http::error::header_limit ||
        failed == beast::http::error::buffer_overflow) {
      return refuse(error_response(
          431, concat("the request's headers are longer than ", limits().header_bytes, " bytes")));
    }
    if (failed) {
      return refuse(error_response(400, concat("not a HTTP/1.1 request: ", failed.message())));
    }
    request_ = request_of(parser_->get());
    request_.peer = peer_;
    keep_alive_ = parser_->get().keep_alive();
    version_ = parser_->get().version();
    if (auto problem = head_problem(parser_->get(), parser_->chunked())) {
      return refuse(*std::move(problem));
    }
    route();
  }

  /// Finds the handler, and asks its gate before any of the body is read.
  void route() {
    auto found = core_->router.find(request_.method, request_.path);
    const bool chunked = parser_->chunked();
    const std::uint64_t length = parser_->content_length().value_or(0);
    route_ = found.route;
    std::optional<Response> refused;
    if (route_ == nullptr) {
      refused = std::move(found.response);
    } else {
      request_.captured = std::move(found.captured);
      if (route_->gate) refused = route_->gate(request_);
    }
    if (!refused) return chunked ? read_chunked() : read_body(length);
    chunked || length > 0 ? refuse(*std::move(refused)) : reply_at_once(*std::move(refused));
  }

  Response too_long() const {
    return error_response(413, concat("the body is longer than ", limits().body_bytes, " bytes"));
  }
  static Response no_room() {
    auto response = error_response(503, "too many bodies are here already; try again soon");
    response.headers.push_back({"Retry-After", "1"});
    return response;
  }

  /// Goes on once the client knows that its body is wanted, if it asked.
  template <typename Then>
  void invite(Then then) {
    const auto* expected = find_header(request_.headers, "Expect");
    if (expected == nullptr || version_ < 11 || buffer_.size() > 0) return then();
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(wire_, asio::buffer(kContinue),
                      [self = shared(), then](error_code failed, std::size_t) {
                        failed ? self->depart() : then();
                      });
  }

  /// Of a known length: from the wire to where it stays, without a copy.
  void read_body(std::uint64_t length) {
    if (length > limits().body_bytes) return refuse(too_long());
    auto lease = std::make_shared<Lease>(core_->budget);
    if (!lease->grow_to(length)) return refuse(no_room());
    request_bytes_ = length;
    if (length == 0) return take_body();
    std::shared_ptr<std::byte[]> memory(new (std::nothrow) std::byte[length + Body::kPadding]);
    if (memory == nullptr) return refuse(no_room());
    std::memset(memory.get() + length, 0, Body::kPadding);
    request_.body = body_of(memory.get(), length, [memory, lease](std::byte*) {});
    arm(time_for(length), Phase::kBody);
    invite([self = shared()] { self->read_rest(); });
  }
  void read_rest() {
    const std::size_t here = std::min(buffer_.size(), request_.body.size);
    if (here > 0) std::memcpy(request_.body.data.get(), buffer_.data().data(), here);
    buffer_.consume(here);
    asio::async_read(wire_,
                     asio::buffer(request_.body.data.get() + here, request_.body.size - here),
                     [self = shared()](error_code failed, std::size_t) { self->end_body(failed); });
  }

  void read_chunked() {
    arm(time_for(limits().body_bytes), Phase::kBody);
    chunked_ = std::make_unique<Chunked>(core_->budget, std::move(*parser_));
    chunked_->parser.body_limit(limits().body_bytes);
    invite([self = shared()] { self->read_chunks(); });
  }
  void read_chunks() {
    beast::http::async_read_some(
        wire_, buffer_, chunked_->parser, [self = shared()](error_code failed, std::size_t) {
          auto& chunked = *self->chunked_;
          if (!failed && !chunked.lease->grow_to(chunked.parser.get().body().capacity())) {
            return self->refuse(no_room());
          }
          if (!failed && !chunked.parser.is_done()) return self->read_chunks();
          if (!failed) self->take_chunks();
          self->end_body(failed);
        });
  }
  void take_chunks() {
    auto text = std::make_shared<std::string>(std::move(chunked_->parser.get().body()));
    request_bytes_ = text->size();
    text->append(Body::kPadding, '\0');
    request_.body = body_of(reinterpret_cast<std::byte*>(text->data()), request_bytes_,
                            [text, lease = chunked_->lease](std::byte*) {});
    chunked_.reset();
  }

  void end_body(error_code failed) {
    if (late_) return refuse(error_response(408, "the request's body took too long"));
    if (failed == beast::http::error::body_limit) return refuse(too_long());
    if (failed && is_parse_error(failed)) {
      return refuse(error_response(400, concat("not a chunked body: ", failed.message())));
    }
    failed ? depart() : take_body();
  }

  void take_body() {
    const auto* encoding = find_header(request_.headers, "Content-Encoding");
    if (encoding != nullptr && is_packing(*encoding)) {
      auto text = unpack(request_.body.text(), limits().body_bytes);
      if (!text) {
        const bool long_one = text.error().code == Code::kResourceExhausted;
        return reply_at_once(error_response(long_one ? 413 : 400, text.error().reason));
      }
      const auto lease = std::make_shared<Lease>(core_->budget);
      if (!lease->grow_to(text->size())) return reply_at_once(no_room());
      const auto kept = std::make_shared<std::string>(*std::move(text));
      const std::size_t size = kept->size();
      kept->append(Body::kPadding, '\0');
      request_.body =
          body_of(reinterpret_cast<std::byte*>(kept->data()), size, [kept, lease](std::byte*) {});
    }
    or_depart([this] { handle(); });
  }

  /// For the access log and the answer, as the handler takes the request away.
  void note_request() {
    method_ = request_.method;
    served_ = {.peer = peer_,
               .client = request_.client,
               .method = request_.method,
               .target = request_.target};
  }

  void handle() {
    disarm(Phase::kHandling);
    parser_.reset();
    if (buffer_.size() == 0) watch();
    auto exchange = std::make_shared<Exchange>(shared());
    exchange_ = exchange;
    note_request();
    Responder responder(std::move(exchange));
    try {
      route_->handler(std::move(request_), responder);
    } catch (const std::exception& error) {
      responder.send(error_response(500, concat("the request failed: ", error.what())));
    }
    request_ = {};
  }

  // ------------------------------------------------------------------------------------- Writing

  /// Refuses what was not read to its end: the connection ends with it.
  void refuse(Response response) {
    keep_alive_ = false;
    late_ = false;
    reply_at_once(std::move(response));
  }
  void reply_at_once(Response response) {
    note_request();
    request_ = {};
    chunked_.reset();
    respond(std::move(response), false);
  }

  void respond(Response response, bool streams) {
    served_.status = response.status;
    served_.notes = std::move(response.notes);
    response_ = std::move(response);
    if (phase_ == Phase::kShut) return cut_off();
    if (stopping_) keep_alive_ = false;
    streams_ = streams;
    chunked_out_ = streams && version_ >= 11;
    if (streams && !chunked_out_) keep_alive_ = false;
    std::size_t bytes = 0;
    for (const auto& piece : response_.body) bytes += piece.content().size();
    out_ = head_of(response_, {.length = streams ? std::nullopt : std::optional(bytes),
                               .chunked = chunked_out_,
                               .keep_alive = keep_alive_,
                               .version = version_});
    const bool bodiless = method_ == "HEAD" || streams;
    std::vector<asio::const_buffer> buffers{asio::buffer(out_)};
    if (!bodiless) {
      for (const auto& piece : response_.body) {
        buffers.emplace_back(piece.content().data(), piece.content().size());
      }
      served_.response_bytes = bytes;
    }
    arm(time_for(bytes), Phase::kWriting);
    writing_ = true;
    asio::async_write(wire_, buffers, [self = shared()](error_code failed, std::size_t) {
      self->writing_ = false;
      if (failed) return self->break_off();
      if (!self->streams_) return self->finish();
      self->or_depart([&] { self->begin_stream(); });
    });
  }

  void begin_stream() {
    disarm(Phase::kStreaming);
    if (method_ == "HEAD") return finish();
    pump();
  }

  /// Writes what waits of the stream.
  void pump() {
    if (!streams_ || writing_ || phase_ != Phase::kStreaming) return;
    if (chunks_.empty() && !stream_ended_) return;
    out_.clear();
    std::size_t bytes = 0;
    for (const auto& chunk : chunks_) {
      bytes += chunk.size();
      if (!chunk.empty()) out_ += chunked_out_ ? as_chunk(chunk) : chunk;
    }
    chunks_.clear();
    const bool last = stream_ended_;
    if (last && chunked_out_) out_ += "0\r\n\r\n";
    served_.response_bytes += bytes;
    writing_ = true;
    arm(time_for(bytes), Phase::kWriting);
    asio::async_write(wire_, asio::buffer(out_),
                      [self = shared(), bytes, last](error_code failed, std::size_t) {
                        self->writing_ = false;
                        if (const auto exchange = self->exchange_.lock()) exchange->sent(bytes);
                        if (failed) return self->break_off();
                        if (last) return self->finish();
                        self->disarm(Phase::kStreaming);
                        self->or_depart([&] { self->pump(); });
                      });
  }

  // ------------------------------------------------------------------------------------- Endings

  /// The exchange is over.
  void finish() {
    served_.request_bytes = std::exchange(request_bytes_, 0);
    served_.duration = Clock::now() - began_;
    response_ = {};  // Before it is told that all is over.
    if (core_->options.log) core_->options.log(served_);
    served_ = {};
    chunks_.clear();
    streams_ = stream_ended_ = false;
    if (phase_ == Phase::kShut) return;
    keep_alive_ ? next() : linger();
  }

  /// Bytes that nobody reads would make the system drop the answer: waits until the client has it.
  void linger() {
    error_code failed;
    socket().shutdown(Socket::shutdown_send, failed);
    if (failed) return shut();
    arm(std::chrono::milliseconds(2000), Phase::kLingering);
    if (!watching_) discard(0);
  }
  void discard(std::size_t discarded) {
    buffer_.clear();
    socket().async_read_some(buffer_.prepare(kStep),
                             [self = shared(), discarded](error_code failed, std::size_t bytes) {
                               const bool enough = discarded + bytes > (16U << 20U);
                               failed || enough ? self->shut() : self->discard(discarded + bytes);
                             });
  }

  /// The client has left, or is made to. What is being written ends by itself then.
  void depart() {
    if (phase_ == Phase::kShut) return;
    const bool streaming = phase_ == Phase::kStreaming;
    shut();
    if (const auto exchange = exchange_.lock()) exchange->leave();
    if (streaming) cut_off();
  }
  /// The answer could not be written.
  void break_off() {
    depart();
    cut_off();
  }
  void cut_off() {
    served_.status = 499;
    finish();
  }
  void shut() {
    phase_ = Phase::kShut;
    timer_.cancel();
    error_code ignored;
    const std::scoped_lock lock(closing_);
    socket().close(ignored);
  }
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
