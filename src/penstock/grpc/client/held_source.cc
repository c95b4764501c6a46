#include "penstock/grpc/client/held_source.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <optional>
#include <utility>

#include "penstock/grpc/client/pull.h"

namespace penstock::grpc {
namespace {

constexpr auto kLooks = std::chrono::milliseconds(50);  ///< Whether the worker is lost.

}  // namespace

class HeldSource::HeldHere final : public Held {
 public:
  HeldHere(std::shared_ptr<HeldSource> source, std::string ticket, DType dtype,
           std::vector<std::int64_t> dims)
      : source_(std::move(source)),
        ticket_(std::move(ticket)),
        dtype_(dtype),
        dims_(std::move(dims)) {}
  HeldHere(const HeldHere&) = delete;
  HeldHere& operator=(const HeldHere&) = delete;
  ~HeldHere() override { source_->release(ticket_); }

  [[nodiscard]] const std::string& address() const override { return source_->address_; }
  [[nodiscard]] const std::string& ticket() const override { return ticket_; }
  [[nodiscard]] const std::vector<std::int64_t>& dims() const override { return dims_; }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] bool is_lost() const override { return source_->is_lost(); }
  void read_by(const std::shared_ptr<InferCall>& call) const override {
    source_->note_reader(call);
  }
  Status read(Tensor& to) const override { return source_->read(*this, to); }

 private:
  const std::shared_ptr<HeldSource> source_;
  const std::string ticket_;
  const DType dtype_;
  const std::vector<std::int64_t> dims_;
};

void HeldSource::connected(const Connection& connection, const std::shared_ptr<Line>& line,
                           bool same_session) {
  std::vector<std::string> released;
  {
    const std::scoped_lock lock(mutex_);
    connection_ = std::make_shared<const Connection>(connection);
    line_ = line;
    lost_ = false;
    released.swap(released_);
  }
  if (same_session && !released.empty()) line->release(released);
}

void HeldSource::lost() {
  std::vector<std::weak_ptr<InferCall>> readers;
  {
    const std::scoped_lock lock(mutex_);
    lost_ = true;
    readers.swap(readers_);
  }
  for (const auto& reader : readers) {
    if (const auto call = reader.lock()) call->lose_input(address_);
  }
}

bool HeldSource::is_lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

std::shared_ptr<const Held> HeldSource::hold(std::string ticket, DType dtype,
                                             std::vector<std::int64_t> dims) {
  return std::make_shared<const HeldHere>(shared_from_this(), std::move(ticket), dtype,
                                          std::move(dims));
}

void HeldSource::note_reader(const std::shared_ptr<InferCall>& call) {
  {
    const std::scoped_lock lock(mutex_);
    std::erase_if(readers_, [](const auto& reader) { return reader.expired(); });
    readers_.push_back(call);
    if (!lost_) return;
  }
  call->lose_input(address_);
}

void HeldSource::release(const std::string& ticket) {
  std::shared_ptr<Line> line;
  {
    const std::scoped_lock lock(mutex_);
    line = line_.lock();
    if (lost_ || line == nullptr) {
      released_.push_back(ticket);
      return;
    }
  }
  line->release({ticket});
}

Status HeldSource::read(const HeldHere& held, Tensor& to) const {
  const auto gone = [&] {
    return make_error(Code::kUnavailable, "the tensor was lost with the worker that had it")
        .within({Where::kPeer, address_});
  };
  std::shared_ptr<const Connection> connection;
  {
    const std::scoped_lock lock(mutex_);
    if (lost_) return gone();
    connection = connection_;
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<Result<Tensor>> pulled;
  const auto pull = start_pull(connection, address_,
                               {.ticket = held.ticket(),
                                .dtype = held.dtype(),
                                .dims = held.dims(),
                                .deadline = {},
                                .into = to},
                               [&](Result<Tensor> result) {
                                 const std::scoped_lock lock(mutex);
                                 pulled = std::move(result);
                                 changed.notify_all();
                               });
  std::unique_lock lock(mutex);
  while (!changed.wait_for(lock, kLooks, [&] { return pulled.has_value(); })) {
    if (!is_lost()) continue;
    pull->cancel();
    changed.wait(lock, [&] { return pulled.has_value(); });
  }
  if (*pulled) return {};
  if (is_lost() || pulled->error().code == Code::kNotFound) return gone();
  return std::move(*pulled).error();
}

}  // namespace penstock::grpc
