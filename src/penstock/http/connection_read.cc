// Reads a connection's requests, and hands them to the router.
#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include <boost/asio/buffer.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>

#include "penstock/http/connection.h"
#include "penstock/http/head.h"
#include "penstock/http/unpack.h"

namespace penstock::http {
namespace {

Response no_room() {
  auto response = error_response(429, "too many bodies are here already; try again soon");
  response.headers.push_back({"Retry-After", "1"});
  return response;
}

bool is_packed(const Request& request) {
  const auto* encoding = find_header(request.headers, "Content-Encoding");
  return encoding != nullptr && is_packing(*encoding);
}

class TurnEnd {
 public:
  explicit TurnEnd(Turns& turns) : turns_(turns) {}
  TurnEnd(const TurnEnd&) = delete;
  TurnEnd& operator=(const TurnEnd&) = delete;
  ~TurnEnd() { turns_.end(); }

 private:
  Turns& turns_;
};

}  // namespace

void Connection::next() {
  if (stopping_) return shut();
  parser_.reset();
  exchange_.reset();
  if (buffer_.size() > 0) return read_head();
  arm(limits().idle_timeout, Phase::kIdle);
  if (!watching_) watch();
}

void Connection::watch() {
  watching_ = true;
  buffer_.shrink_to_fit();
  wire_.async_read_some(buffer_.prepare(kStep),
                        [self = shared()](error_code failed, std::size_t bytes) {
                          self->watching_ = false;
                          self->buffer_.commit(bytes);
                          self->seen(failed);
                        });
}

bool Connection::is_answered() const {
  if (phase_ == Phase::kWriting) return !streams_;
  const auto exchange = exchange_.lock();
  return phase_ == Phase::kHandling && (exchange == nullptr || exchange->is_answered());
}

void Connection::seen(error_code failed) {
  // The client may have ended its sending alone. If it has left, the writing fails.
  if (failed == asio::error::eof && is_answered()) {
    keep_alive_ = false;
    return;
  }
  if (failed) return depart();
  if (phase_ == Phase::kIdle) read_head();
  if (phase_ == Phase::kLingering) discard(0);
}

void Connection::read_head() {
  arm(limits().header_timeout, Phase::kHead);
  began_ = Clock::now();
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits().header_bytes));
  parser_->body_limit(std::numeric_limits<std::uint64_t>::max());  // Ours has a sentence.
  beast::http::async_read_header(
      wire_, buffer_, *parser_,
      [self = shared()](error_code failed, std::size_t) { self->take_head(failed); });
}

void Connection::take_head(error_code failed) {
  if (late_) return refuse(error_response(408, "the request's headers took too long"));
  if (failed == beast::http::error::end_of_stream || (failed && !is_parse_error(failed))) {
    return depart();
  }
  if (failed == beast::http::error::header_limit || failed == beast::http::error::buffer_overflow) {
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

void Connection::route() {
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

Response Connection::too_long() const {
  return error_response(413, concat("the body is longer than ", limits().body_bytes, " bytes"));
}

template <typename Then>
void Connection::invite(Then then) {
  const auto* expected = find_header(request_.headers, "Expect");
  if (expected == nullptr || version_ < 11 || buffer_.size() > 0) return then();
  static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(wire_, asio::buffer(kContinue),
                    [self = shared(), then](error_code failed, std::size_t) {
                      failed ? self->depart() : then();
                    });
}

void Connection::read_body(std::uint64_t length) {
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

void Connection::read_rest() {
  const std::size_t here = std::min(buffer_.size(), request_.body.size);
  if (here > 0) std::memcpy(request_.body.data.get(), buffer_.data().data(), here);
  buffer_.consume(here);
  asio::async_read(wire_, asio::buffer(request_.body.data.get() + here, request_.body.size - here),
                   [self = shared()](error_code failed, std::size_t) { self->end_body(failed); });
}

void Connection::read_chunked() {
  arm(time_for(limits().body_bytes), Phase::kBody);
  chunked_ = std::make_unique<Chunked>(core_->budget, std::move(*parser_));
  chunked_->parser.body_limit(limits().body_bytes);
  invite([self = shared()] { self->read_chunks(); });
}

void Connection::read_chunks() {
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

void Connection::take_chunks() {
  auto text = std::make_shared<std::string>(std::move(chunked_->parser.get().body()));
  request_bytes_ = text->size();
  text->append(Body::kPadding, '\0');
  request_.body = body_of(reinterpret_cast<std::byte*>(text->data()), request_bytes_,
                          [text, lease = chunked_->lease](std::byte*) {});
  chunked_.reset();
}

void Connection::end_body(error_code failed) {
  if (late_) return refuse(error_response(408, "the request's body took too long"));
  if (failed == beast::http::error::body_limit) return refuse(too_long());
  if (failed && is_parse_error(failed)) {
    return refuse(error_response(400, concat("not a chunked body: ", failed.message())));
  }
  if (failed) return depart();
  if (!is_costly()) return take_body();
  disarm(Phase::kHandling);
  or_depart([this] {
    core_->turns.take([self = shared()] {
      self->core_->post(self->socket().get_executor(), [self] { self->take_turn(); });
    });
  });
}

bool Connection::is_costly() const {
  constexpr std::size_t kLong = 1U << 20U, kLongPacked = 16U << 10U;  // Bytes: milliseconds.
  return request_.body.size > (is_packed(request_) ? kLongPacked : kLong);
}

void Connection::take_turn() {
  const TurnEnd end(core_->turns);
  if (phase_ == Phase::kHandling) take_body();  // It may have been closed while it waited.
}

void Connection::take_body() {
  if (is_packed(request_)) {
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

void Connection::note_request() {
  method_ = request_.method;
  served_ = {.peer = peer_,
             .client = request_.client,
             .method = request_.method,
             .target = request_.target};
}

void Connection::handle() {
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

}  // namespace penstock::http
