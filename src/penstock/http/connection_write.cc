// Writes a connection's answers: whole ones and streams.
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>

#include "penstock/http/connection.h"
#include "penstock/http/head.h"

namespace penstock::http {

void Connection::refuse(Response response) {
  keep_alive_ = false;
  late_ = false;
  reply_at_once(std::move(response));
}

void Connection::reply_at_once(Response response) {
  note_request();
  request_ = {};
  chunked_.reset();
  respond(std::move(response), false);
}

void Connection::respond(Response response, bool streams) {
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

void Connection::begin_stream() {
  disarm(Phase::kStreaming);
  if (method_ == "HEAD") return finish();
  pump();
}

void Connection::pump() {
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

}  // namespace penstock::http
