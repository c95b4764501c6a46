// ClientStream: a call that goes on, of messages both ways, by gRPC's queue of events.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include <grpcpp/completion_queue.h>
#include <grpcpp/generic/generic_stub.h>

#include "penstock/grpc/client/peer.h"

namespace penstock::grpc {

/// What is told of by a queue.
class QueueEvent {
 public:
  virtual ~QueueEvent() = default;
  virtual void happened(bool ok) = 0;
};

/// Until the queue is shut down and empty. \pre  each tag of the queue is a QueueEvent
void dispatch_events(::grpc::CompletionQueue& queue);

/// Lives until its end was told, and for as long as others hold it.
class ClientStream : public std::enable_shared_from_this<ClientStream> {
 public:
  ClientStream() = default;
  virtual ~ClientStream() = default;
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  /// Once, before all else. What happens comes by `queue`, which outlives it.
  void begin(const Connection& connection, const char* method, ::grpc::CompletionQueue& queue);
  /// In the order of the calls; into nothing once it has ended. Any thread.
  void send(std::uint64_t number, ::grpc::ByteBuffer message);
  /// Takes back what was sent under that number and still waits here: a server that reads slowly
  /// lets nothing grow. Any thread.
  void withdraw(std::uint64_t number);
  /// It ends soon, as cancelled unless it has ended already. Any thread.
  void break_off() { context_.TryCancel(); }

 protected:
  /// All on the thread that reads the queue.
  virtual void received(const ::grpc::ByteBuffer& message) = 0;
  /// Once; nothing more is received or sent.
  virtual void ended(const ::grpc::Status& status) = 0;
  virtual void over() {}  ///< Last of all: no event is due any more.

 private:
  enum class Happens : std::uint8_t { kStarted, kWritten, kRead, kOver };
  class Event final : public QueueEvent {
   public:
    Event(ClientStream& stream, Happens what) : stream_(stream), what_(what) {}
    void happened(bool ok) override { stream_.happened(what_, ok); }

   private:
    ClientStream& stream_;
    const Happens what_;
  };

  void happened(Happens what, bool ok);
  void write_next();  ///< \pre  holds the lock.

  ::grpc::ClientContext context_;
  std::unique_ptr<::grpc::GenericClientAsyncReaderWriter> stream_;
  ::grpc::ByteBuffer incoming_;
  ::grpc::Status status_;
  Event started_{*this, Happens::kStarted}, written_{*this, Happens::kWritten},
      read_{*this, Happens::kRead}, over_event_{*this, Happens::kOver};
  std::shared_ptr<ClientStream> self_;  // Until it is over.

  std::mutex mutex_;                                                   // Guards all below.
  std::deque<std::pair<std::uint64_t, ::grpc::ByteBuffer>> outgoing_;  ///< By number.
  bool writing_ = true;                        ///< One event of `started_` or `written_` is due.
  bool finishing_ = false, finished_ = false;  ///< The end of the stream is asked for; was told.
};

}  // namespace penstock::grpc
