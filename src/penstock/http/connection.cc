// Begins and ends a connection, and gives its client the time it may take.
#include "penstock/http/connection.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <sys/socket.h>

#include "penstock/http/head.h"
#include "penstock/http/tls.h"

namespace penstock::http {
namespace {

constexpr std::size_t kChunk = 64U << 10U;

/// The whole of an answer with which the connection ends.
std::string last_words(const Response& response) {
  const auto& text = response.body.front().text;
  return head_of(response, {.length = text.size(), .keep_alive = false}) + text;
}

}  // namespace

Connection::Connection(std::shared_ptr<Core> core, Socket accepted, std::shared_ptr<TlsContext> tls)
    : core_(std::move(core)),
      wire_(std::move(accepted), std::move(tls)),
      timer_(socket().get_executor()),
      buffer_(core_->options.limits.header_bytes + kChunk) {
  error_code failed;
  socket().set_option(asio::ip::tcp::no_delay(true), failed);
  const auto remote = socket().remote_endpoint(failed);
  if (!failed) peer_ = peer_of(remote);
}

void Connection::start() {
  if (!core_->enter(this)) return turn_away();
  if (!wire_.secure()) return next();
  arm(limits().handshake_timeout, Phase::kHandshake);
  wire_.async_handshake([self = shared()](error_code failed) { self->shake(failed); });
}

void Connection::stop() {
  auto self = weak_from_this().lock();
  if (self == nullptr) return;  // It is being destroyed.
  asio::post(socket().get_executor(), [self = std::move(self)] {
    self->stopping_ = true;
    if (self->phase_ == Phase::kIdle) self->shut();
  });
}

void Connection::close() {
  auto self = weak_from_this().lock();
  if (self == nullptr) return;
  asio::post(socket().get_executor(), [self = std::move(self)] {
    self->stopping_ = true;
    self->depart();
  });
}

void Connection::answer(Response response, bool streams) {
  core_->post(socket().get_executor(),
              [self = shared(), streams, response = std::move(response)]() mutable {
                self->or_depart([&] { self->respond(std::move(response), streams); });
              });
}

void Connection::append(std::string text) {
  core_->post(socket().get_executor(), [self = shared(), text = std::move(text)]() mutable {
    self->or_depart([&] {
      self->chunks_.push_back(std::move(text));
      self->pump();
    });
  });
}

void Connection::end_stream() {
  core_->post(socket().get_executor(), [self = shared()] {
    self->stream_ended_ = true;
    self->or_depart([&] { self->pump(); });
  });
}

void Connection::abandon() noexcept {
  const std::scoped_lock lock(closing_);
  if (socket().is_open()) ::shutdown(socket().native_handle(), SHUT_RDWR);
}

void Connection::arm(std::chrono::milliseconds timeout, Phase phase) {
  phase_ = phase;
  timer_.expires_after(timeout);
  timer_.async_wait([self = shared()](error_code failed) {
    if (!failed && self->timer_.expiry() <= Clock::now()) self->run_out();
  });
}

void Connection::disarm(Phase phase) {
  phase_ = phase;
  timer_.cancel();
}

std::chrono::milliseconds Connection::time_for(std::size_t bytes) const {
  return limits().transfer_timeout +
         std::chrono::milliseconds(bytes * 1000 / limits().least_bytes_per_second);
}

void Connection::run_out() {
  if (phase_ == Phase::kHandling || phase_ == Phase::kStreaming) return;  // It came too late.
  late_ = phase_ == Phase::kHead || phase_ == Phase::kBody;
  error_code ignored;
  if (late_) {
    socket().cancel(ignored);
  } else {
    depart();
  }
}

void Connection::turn_away() {
  if (wire_.secure()) return;
  auto response = error_response(503, "too many connections are open; try again soon");
  response.headers.push_back({"Retry-After", "1"});
  out_ = last_words(response);
  error_code ignored;
  socket().non_blocking(true, ignored);
  socket().write_some(asio::buffer(out_), ignored);
}

void Connection::ask_for_tls() {
  out_ = last_words(error_response(400, "this port takes HTTPS alone: begin with https://"));
  arm(limits().transfer_timeout, Phase::kWriting);
  asio::async_write(socket(), asio::buffer(out_),
                    [self = shared()](error_code failed, std::size_t) {
                      failed ? self->shut() : self->linger();
                    });
}

void Connection::shake(error_code failed) {
  if (is_plain_http(failed)) return ask_for_tls();
  if (failed) return shut();
  peer_.certificate_name = wire_.certificate_name();
  next();
}

void Connection::finish() {
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

void Connection::linger() {
  error_code failed;
  socket().shutdown(Socket::shutdown_send, failed);
  if (failed) return shut();
  arm(std::chrono::milliseconds(2000), Phase::kLingering);
  if (!watching_) discard(0);
}

void Connection::discard(std::size_t discarded) {
  buffer_.clear();
  socket().async_read_some(buffer_.prepare(kStep),
                           [self = shared(), discarded](error_code failed, std::size_t bytes) {
                             const bool enough = discarded + bytes > (16U << 20U);
                             failed || enough ? self->shut() : self->discard(discarded + bytes);
                           });
}

void Connection::depart() {
  if (phase_ == Phase::kShut) return;
  const bool streaming = phase_ == Phase::kStreaming;
  shut();
  if (const auto exchange = exchange_.lock()) exchange->leave();
  if (streaming) cut_off();
}

void Connection::break_off() {
  depart();
  cut_off();
}

void Connection::cut_off() {
  served_.status = 499;
  finish();
}

void Connection::shut() {
  phase_ = Phase::kShut;
  timer_.cancel();
  error_code ignored;
  const std::scoped_lock lock(closing_);
  socket().close(ignored);
}

}  // namespace penstock::http
