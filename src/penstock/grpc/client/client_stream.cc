// Reads one message after the other, writes from a queue, and waits for the last event of both.
#include "penstock/grpc/client/client_stream.h"

#include <algorithm>
#include <utility>

namespace penstock::grpc {

void dispatch_events(::grpc::CompletionQueue& queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue.Next(&tag, &ok)) static_cast<QueueEvent*>(tag)->happened(ok);
}

void ClientStream::begin(const Connection& connection, const char* method,
                         ::grpc::CompletionQueue& queue) {
  connection.introduce(context_);
  self_ = shared_from_this();
  ::grpc::GenericStub stub(connection.channel());
  stream_ = stub.PrepareCall(&context_, method, &queue);
  stream_->StartCall(&started_);
}

void ClientStream::happened(Happens what, bool ok) {
  if (what == Happens::kRead && ok) {
    received(incoming_);
    incoming_.Clear();
    stream_->Read(&incoming_, &read_);
    return;
  }
  if (what == Happens::kStarted && ok) stream_->Read(&incoming_, &read_);
  if (what == Happens::kOver) ended(status_);
  std::shared_ptr<ClientStream> self;
  {
    const std::scoped_lock lock(mutex_);
    if (what == Happens::kWritten) outgoing_.pop_front();
    if (what == Happens::kWritten || what == Happens::kStarted) writing_ = false;
    if (what == Happens::kOver) finished_ = true;
    const bool failed = !ok && (what == Happens::kRead || what == Happens::kStarted);
    if (failed && !std::exchange(finishing_, true)) stream_->Finish(&status_, &over_event_);
    if (ok && what != Happens::kOver) write_next();  // Else the reader learns of the end.
    // A write that was in progress may be told of behind the end.
    if (!finished_ || writing_) return;
    self = std::move(self_);
  }
  over();
}

void ClientStream::write_next() {
  if (writing_ || finishing_ || outgoing_.empty()) return;
  writing_ = true;
  stream_->Write(outgoing_.front().second, &written_);
}

void ClientStream::send(std::uint64_t number, ::grpc::ByteBuffer message) {
  const std::scoped_lock lock(mutex_);
  if (finishing_) return;
  outgoing_.emplace_back(number, std::move(message));
  write_next();
}

void ClientStream::withdraw(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  const auto first = outgoing_.begin() + (writing_ && !outgoing_.empty() ? 1 : 0);
  outgoing_.erase(std::remove_if(first, outgoing_.end(),
                                 [&](const auto& sent) { return sent.first == number; }),
                  outgoing_.end());
}

}  // namespace penstock::grpc
