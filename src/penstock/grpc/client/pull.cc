// Receives a tensor in pieces by a streaming call, and checks them against what was announced.
#include "penstock/grpc/client/pull.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/support/client_callback.h>

#include "penstock/grpc/client/question.h"
#include "penstock/grpc/client/raw_message.h"
#include "penstock/grpc/client/worker_messages.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/worker.pb.h"
#include "penstock/tensor/datatype.h"

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;
using Bytes = ::grpc::ByteBuffer;

/// For who has no deadline: a peer that says nothing holds the tensor's room for no longer.
constexpr auto kLongestPull = std::chrono::seconds(30);
constexpr const char* kPullMethod = "/penstock.worker.Worker/Pull";
constexpr std::uint64_t kMostStringBytes = std::uint64_t{64} << 20;

/// A tensor on its way in. Strings come as bytes, of which the head says how many there are.
class Incoming {
 public:
  explicit Incoming(PullOrder order) : order_(std::move(order)) {}

  [[nodiscard]] const PullOrder& order() const { return order_; }

  Status add(const Bytes& message) {
    PENSTOCK_TRY(const auto parts, RawMessage::read(message, kRawField, "PullResponse"));
    worker::PullResponse response;
    if (!response.ParseFromString(parts.head())) return no_response();
    if (response.has_head()) PENSTOCK_CHECK_OK(begin(response.head()));
    for (std::size_t i = 0; i < parts.count(); ++i) {
      if (!begun_ || parts.bytes(i) > total_ - had_) return no_response();
      parts.copy(i, static_cast<std::byte*>(bytes_.data()) + had_);
      had_ += parts.bytes(i);
    }
    return {};
  }

  [[nodiscard]] std::size_t had() const { return had_; }
  [[nodiscard]] bool is_whole() const { return begun_ && had_ == total_; }

  Result<Tensor> finish() {
    if (!is_whole()) return no_response();
    const auto all = static_cast<std::int64_t>(had_);
    if (!bytes_.set_dims({&all, 1})) return internal_error("no room for dims");
    return read_raw(bytes_, order_.dtype, order_.dims);
  }

 private:
  static Error no_response() {
    return make_error(Code::kDataLoss, "the worker sent another tensor than it announced");
  }

  Status begin(const worker::PullHead& head) {
    PENSTOCK_TRY(const auto dtype, read_dtype(head.dtype()));
    PENSTOCK_TRY(const auto dims, read_dims(head.dims()));
    const auto found = Type::tensor(dtype, std::span(dims));
    const auto expected = Type::tensor(order_.dtype, std::span(std::as_const(order_.dims)));
    if (found != expected) return invalid_argument("expected ", expected, ", found ", found);
    if (begun_) return no_response();
    const bool fits =
        dtype == DType::kString ? head.bytes() <= kMostStringBytes : head.bytes() == bytes_of_all();
    if (!fits) return no_response();
    begun_ = true;
    total_ = head.bytes();
    Tensor& into = order_.into;
    const bool there = into.data() != nullptr && into.capacity_bytes() >= total_;
    bytes_ = there ? Tensor::reserve_in(MemoryDomain::kHost, DType::kU8, total_, into.data(),
                                        into.owner())
                   : Tensor::reserve(DType::kU8, total_);
    return {};
  }

  [[nodiscard]] std::uint64_t bytes_of_all() const {
    const auto bytes = count_bytes(order_.dtype, order_.dims);
    return bytes ? *bytes : 0;
  }

  PullOrder order_;
  bool begun_ = false;
  Tensor bytes_;
  std::size_t total_ = 0, had_ = 0;
};

/// One pull. Lives until gRPC is done with it.
class PullCall final : public ::grpc::ClientBidiReactor<Bytes, Bytes>, public Pull {
 public:
  PullCall(std::shared_ptr<const Connection> connection, std::string address, PullOrder order,
           std::function<void(Result<Tensor>)> done)
      : connection_(std::move(connection)),
        address_(std::move(address)),
        stub_(connection_->channel()),
        incoming_(std::move(order)),
        done_(std::move(done)) {}

  void begin(const std::shared_ptr<PullCall>& self) {
    self_ = self;
    const auto longest = Clock::now() + kLongestPull;
    const auto until = std::min(incoming_.order().deadline.value_or(longest), longest);
    of_caller_ = until < longest;
    context_.set_deadline(grpc::system_time(until.time_since_epoch().count()));
    // A ticket is all that a pull shows: who names us an address does not learn our token by it.
    worker::PullRequest request;
    request.set_ticket(incoming_.order().ticket);
    request.set_piece_bytes(connection_->pace().piece_bytes());
    const ::grpc::Slice slice(request.SerializeAsString());
    request_ = Bytes(&slice, 1);
    stub_.PrepareBidiStreamingCall(&context_, kPullMethod, {}, this);
    StartWriteLast(&request_, {});
    StartRead(&response_);
    StartCall();
  }

  void cancel() override {
    cancelled_ = true;
    context_.TryCancel();
  }

  [[nodiscard]] std::uint64_t pieces() const override { return pieces_; }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    ++pieces_;
    if (Status added = incoming_.add(response_); !added) {
      failed_ = std::move(added).error();
      context_.TryCancel();
      return;
    }
    tell_pace();
    StartRead(&response_);
  }

  void OnDone(const ::grpc::Status& status) override {
    if (!incoming_.is_whole()) connection_->pace().failed();
    const auto done = std::exchange(done_, nullptr);
    auto pulled = result(status);
    self_.reset();  // Before who waits goes on: else the channel is freed while its peer leaves.
    done(std::move(pulled));
  }

 private:
  /// Of what came behind the first piece, which came when the peer had it.
  void tell_pace() {
    const auto now = Clock::now();
    if (pieces_ == 1) {
      first_bytes_ = incoming_.had();
      first_ = now;
    } else if (incoming_.is_whole()) {
      const std::chrono::duration<double> seconds = now - first_;
      connection_->pace().saw(incoming_.had() - first_bytes_, seconds.count());
    }
  }

  Result<Tensor> result(const ::grpc::Status& status) {
    if (failed_) return std::move(*failed_).within({Where::kPeer, address_});
    if (status.ok()) return incoming_.finish();
    Error told = to_error(status, address_);
    // What nobody here wanted to end is the worker's: it leaves, or sends nothing.
    const bool ended = (told.code == Code::kCancelled && !cancelled_) ||
                       (told.code == Code::kDeadlineExceeded && !of_caller_);
    if (ended) told.code = Code::kUnavailable;
    return told;
  }

  const std::shared_ptr<const Connection> connection_;
  const std::string address_;
  ::grpc::TemplatedGenericStub<Bytes, Bytes> stub_;
  ::grpc::ClientContext context_;
  Bytes request_, response_;
  Incoming incoming_;
  std::function<void(Result<Tensor>)> done_;
  std::optional<Error> failed_;
  bool of_caller_ = false;  // The deadline is.
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> pieces_{0};
  std::size_t first_bytes_ = 0;
  Clock::time_point first_;
  std::shared_ptr<PullCall> self_;  // Until OnDone().
};

}  // namespace

std::shared_ptr<Pull> start_pull(std::shared_ptr<const Connection> connection, std::string address,
                                 PullOrder order, std::function<void(Result<Tensor>)> done) {
  const auto call = std::make_shared<PullCall>(std::move(connection), std::move(address),
                                               std::move(order), std::move(done));
  call->begin(call);
  return call;
}

}  // namespace penstock::grpc
