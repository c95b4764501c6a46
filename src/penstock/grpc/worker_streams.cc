// The streams of penstock.worker that are not calls: sessions, contents, tensors, echoes.
#include <algorithm>
#include <array>
#include <utility>

#include "penstock/grpc/caller.h"
#include "penstock/grpc/client/oneof.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/client/worker_messages.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/ended.h"
#include "penstock/grpc/worker_service.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

using Bytes = ::grpc::ByteBuffer;
using Context = ::grpc::CallbackServerContext;
using serve::Right;

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(host::Clock::now().time_since_epoch())
      .count();
}

Error no_message(const char* name) {
  return invalid_argument("the bytes are no ", name);
}

// -------------------------------------------------------------------------------------- sessions

class SessionCall final : public Dialogue<worker::SessionRequest, worker::SessionResponse> {
 public:
  SessionCall(WorkerParts& parts, Context& context)
      : parts_(parts),
        context_(context),
        right_(parts.access, Right::kInfer, context),
        log_(log_call(parts, context, "stream", "Session")) {}

  void start() { read(); }

 private:
  void received(worker::SessionRequest& request) override {
    worker::SessionResponse response;
    response.set_received_ns(now_ns());
    Status answered = session_ == nullptr ? open(request, response) : beat(request, response);
    if (!answered) return end(to_worker_status(answered.error()));
    response.set_draining(parts_.host.draining());
    response.set_tickets(parts_.host.tickets().count(session_->number()));
    response.set_sent_ns(now_ns());
    send(std::move(response));
  }
  void sent() override { read(); }
  /// gRPC says of bytes that are no request what it says of the end.
  void closed() override {
    end(session_ != nullptr
            ? ::grpc::Status::OK
            : to_worker_status(invalid_argument("expected Open in the first request, found the end "
                                                "or bytes that are no SessionRequest")));
  }
  /// Who closed it in order wants it gone; who was cut off may come again.
  void done(bool in_order) override {
    if (in_order && session_ != nullptr) parts_.host.close(*session_);
    log_.end(ended());
  }

  Status open(const worker::SessionRequest& request, worker::SessionResponse& response) {
    PENSTOCK_TRY(const auto client, right_.check());
    if (!request.has_open()) return invalid_argument("expected Open in the first request");
    const auto& asked = request.open();
    log_.client(client);
    log_.note("caller", asked.caller().substr(0, 128));
    if (asked.protocol() != kWorkerProtocol) {
      return make_error(Code::kFailedPrecondition, "expected protocol ", kWorkerProtocol,
                        " of workers, found ", asked.protocol(),
                        "; install the same Penstock at both ends");
    }
    if (!asked.peers().empty()) {
      PENSTOCK_CHECK_OK(check_caller(parts_.access, Right::kLoad, context_));
    }
    PENSTOCK_TRY(session_,
                 asked.session().empty()
                     ? parts_.host.open(client, asked.caller().substr(0, 128),
                                        std::chrono::nanoseconds(asked.lease_ns()))
                     : parts_.host.take_up(asked.session(), client,
                                           {asked.tickets().begin(), asked.tickets().end()}));
    session_->set_peers({asked.peers().begin(), asked.peers().end()});
    response.set_session(session_->id());
    response.set_lease_ns(session_->lease().count());
    return beat_once(0, response);
  }

  Status beat(const worker::SessionRequest& request, worker::SessionResponse& response) {
    PENSTOCK_CHECK_OK(right_.check());
    if (!request.has_beat()) return invalid_argument("expected Beat, found another request");
    return beat_once(request.beat().number(), response);
  }

  Status beat_once(std::uint64_t number, worker::SessionResponse& response) {
    response.set_number(number);
    if (parts_.host.beat(*session_)) return {};
    return not_found("no such session: nothing was heard of it within its lease");
  }

  WorkerParts& parts_;
  Context& context_;
  StreamRight right_;
  CallLog log_;
  std::shared_ptr<host::Session> session_;
};

// -------------------------------------------------------------------------------------- contents

/// Each piece is written by the thread for the disk, which then reads on.
class PutCall final : public ::grpc::ServerReadReactor<worker::PutContentRequest> {
 public:
  static PutCall* start(WorkerParts& parts, Context& context) {
    const std::shared_ptr<PutCall> call(new PutCall(parts, context));
    call->self_ = call;
    auto client = call->right_.check();
    if (client) {
      call->client_ = *std::move(client);
      call->log_.client(call->client_);
      call->StartRead(&call->request_);
    } else {
      call->finish(to_worker_status(client.error()));
    }
    return call.get();
  }

  void OnReadDone(bool ok) override {
    Status posted = parts_.disk.post([call = self_, ok] { ok ? call->take() : call->end(); });
    if (!posted) finish(ended_by([&] { return to_worker_status(posted.error()); }));
  }
  void OnDone() override { self_.reset(); }

 private:
  PutCall(WorkerParts& parts, const Context& context)
      : parts_(parts),
        right_(parts.access, Right::kLoad, context),
        log_(log_call(parts, context, "stream", "PutContent")) {}

  void finish(::grpc::Status status) {
    log_.received(received_);
    log_.end(status);
    Finish(std::move(status));
  }

  void take() {
    const auto goes_on = pipeline::guarded([&]() -> Result<bool> {
      PENSTOCK_CHECK_OK(right_.check());
      return request_.has_head() ? begin(request_.head()) : add(request_.piece());
    });
    if (!goes_on) return finish(ended_by([&] { return to_worker_status(goes_on.error()); }));
    *goes_on ? StartRead(&request_) : finish(::grpc::Status::OK);
  }

  /// False: it is there already.
  Result<bool> begin(const worker::PutContentRequest::Head& head) {
    if (writer_ != nullptr) return invalid_argument("expected one Head, found two");
    PENSTOCK_TRY(session_, parts_.host.find(head.session(), client_));
    if (parts_.host.missing(*session_, {head.sha256()}).empty()) return false;
    PENSTOCK_TRY(writer_, parts_.host.contents().begin(head.sha256(), head.bytes()));
    return true;
  }

  Result<bool> add(const std::string& piece) {
    if (writer_ == nullptr) return invalid_argument("expected a Head before the first piece");
    received_ += piece.size();
    PENSTOCK_CHECK_OK(writer_->add(std::as_bytes(std::span(piece))));
    return true;
  }

  void end() {
    finish(ended_by([&] { return finish_content(); }));
  }

  ::grpc::Status finish_content() {
    if (writer_ == nullptr) return to_worker_status(no_message("content: it has no Head"));
    auto content = writer_->finish();
    if (!content) return to_worker_status(content.error());
    session_->hold(*std::move(content));
    return ::grpc::Status::OK;
  }

  WorkerParts& parts_;
  StreamRight right_;
  CallLog log_;
  std::size_t received_ = 0;  // Bytes of the pieces.
  std::string client_;
  std::shared_ptr<PutCall> self_;  // Until OnDone().
  worker::PutContentRequest request_;
  std::shared_ptr<host::Session> session_;
  std::unique_ptr<host::Contents::Writer> writer_;
};

// --------------------------------------------------------------------------------------- tensors

class PullAnswer final : public ::grpc::ServerWriteReactor<Bytes> {
 public:
  static PullAnswer* start(WorkerParts& parts, const Context& context, const Bytes& request) {
    auto* call = new PullAnswer(  // NOLINT(*-owning-memory): deletes itself
        log_call(parts, context, "stream", "Pull"));
    Status begun = call->begin(parts.host, request);
    begun ? call->write_next() : call->finish(to_worker_status(begun.error()));
    return call;
  }

  void OnWriteDone(bool ok) override {
    if (!ok) return finish(::grpc::Status::CANCELLED);
    if (sent_ < bytes_.bytes()) return write_next();
    pull_->finish();
    finish(::grpc::Status::OK);
  }
  void OnDone() override { delete this; }

 private:
  explicit PullAnswer(CallLog log) : log_(std::move(log)) {}

  void finish(const ::grpc::Status& status) {
    log_.end(status, sent_);
    Finish(status);
  }

  Status begin(host::Host& host, const Bytes& bytes) {
    PENSTOCK_TRY(const auto parts, RawMessage::read(bytes, kRawField, "PullRequest"));
    worker::PullRequest request;
    if (!request.ParseFromString(parts.head())) return no_message("PullRequest");
    PENSTOCK_TRY(auto pull, host.tickets().pull(request.ticket()));
    pull_.emplace(std::move(pull));
    piece_bytes_ = std::clamp<std::size_t>(request.piece_bytes(), kLeastPieceBytes, kPieceBytes);
    bytes_ = pull_->tensor();
    if (bytes_.kind() != Tensor::Kind::kStrings) return {};
    const auto encoded = std::make_shared<std::string>(encode_strings(bytes_));
    const auto size = static_cast<std::int64_t>(encoded->size());
    bytes_ = Tensor::view(DType::kU8, {size}, encoded->data(), encoded);
    return {};
  }

  void write_next() {
    worker::PullResponse response;
    if (sent_ == 0) {
      const Tensor& tensor = pull_->tensor();
      auto& head = begin_part(response, &worker::PullResponse::set_allocated_head);
      head.set_dtype(static_cast<int>(tensor.dtype()));
      for (const auto dim : tensor.dims()) head.add_dims(dim);
      head.set_bytes(bytes_.bytes());
    }
    RawWriter writer(response.SerializeAsString(), kRawField);
    const std::size_t size = std::min(piece_bytes_, bytes_.bytes() - sent_);
    if (size > 0) {
      writer.add(Tensor::view(DType::kU8, {static_cast<std::int64_t>(size)},
                              static_cast<std::byte*>(bytes_.data()) + sent_, bytes_.owner()));
    }
    sent_ += size;
    auto written = std::move(writer).finish();
    if (!written) return finish(to_worker_status(written.error()));
    message_ = *std::move(written);
    StartWrite(&message_);
  }

  CallLog log_;
  std::optional<host::Tickets::Pull> pull_;
  Tensor bytes_;
  std::size_t piece_bytes_ = 0, sent_ = 0;
  Bytes message_;
};

// ---------------------------------------------------------------------------------------- echoes

constexpr std::size_t kMostEcho = std::size_t{16} << 20;

/// The same zeros for all.
Tensor zeros(std::size_t bytes) {
  static const Tensor kZeros = Tensor::allocate(DType::kU8, {static_cast<std::int64_t>(kMostEcho)});
  return Tensor::view(DType::kU8, {static_cast<std::int64_t>(bytes)},
                      const_cast<void*>(kZeros.data()), kZeros.owner());
}

/// Of the process.
std::int64_t cpu_ns() {
  timespec taken{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &taken);
  return std::int64_t{taken.tv_sec} * 1'000'000'000 + taken.tv_nsec;
}

class EchoCall final : public Dialogue<Bytes, Bytes> {
 public:
  EchoCall(const WorkerParts& parts, const Context& context)
      : right_(parts.access, Right::kInfer, context),
        log_(log_call(parts, context, "stream", "Echo")) {}

  void start() {
    const auto client = right_.check();
    if (client) log_.client(*client);
    client ? read() : end(to_worker_status(client.error()));
  }

 private:
  void received(Bytes& request) override {
    const auto received_ns = now_ns();
    const auto may = right_.check();
    auto answered = may ? answer(request, received_ns) : may.error();
    request.Clear();
    if (!answered) return end(to_worker_status(answered.error()));
    send(*std::move(answered));
  }
  void sent() override { read(); }
  void closed() override { end(::grpc::Status::OK); }
  void done(bool /*in_order*/) override { log_.end(ended()); }

  static Result<Bytes> answer(const Bytes& message, std::int64_t received_ns) {
    PENSTOCK_TRY(const auto parts, RawMessage::read(message, kRawField, "EchoRequest"));
    worker::EchoRequest request;
    if (!request.ParseFromString(parts.head())) return no_message("EchoRequest");
    if (request.answer_bytes() > kMostEcho) {
      return make_error(Code::kResourceExhausted, "an echo has at most ", kMostEcho,
                        " bytes, expected no more, found ", request.answer_bytes());
    }
    worker::EchoResponse response;
    response.set_number(request.number());
    response.set_received_ns(received_ns);
    response.set_sent_ns(now_ns());
    response.set_cpu_ns(cpu_ns());
    RawWriter writer(response.SerializeAsString(), kRawField);
    if (request.answer_bytes() > 0) writer.add(zeros(request.answer_bytes()));
    return std::move(writer).finish();
  }

  StreamRight right_;
  CallLog log_;
};

}  // namespace

::grpc::ServerBidiReactor<worker::SessionRequest, worker::SessionResponse>* keep_session(
    WorkerParts& parts, Context& context) {
  const auto call = std::make_shared<SessionCall>(parts, context);
  auto* begun = SessionCall::begin(call);
  parts.lasting.add(call);
  call->start();
  return begun;
}

::grpc::ServerReadReactor<worker::PutContentRequest>* put_content(WorkerParts& parts,
                                                                  Context& context) {
  return PutCall::start(parts, context);
}

::grpc::ServerWriteReactor<Bytes>* send_tensor(WorkerParts& parts, Context& context,
                                               const Bytes& request) {
  return PullAnswer::start(parts, context, request);
}

::grpc::ServerBidiReactor<Bytes, Bytes>* echo(WorkerParts& parts, Context& context) {
  const auto call = std::make_shared<EchoCall>(parts, context);
  auto* begun = EchoCall::begin(call);
  parts.lasting.add(call);
  call->start();
  return begun;
}

}  // namespace penstock::grpc
