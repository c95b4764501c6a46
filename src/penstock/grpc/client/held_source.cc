// Keeps a worker's tickets: pulls their tensors, releases them, and fails readers if it is lost.
#include "penstock/grpc/client/held_source.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <new>
#include <optional>
#include <utility>

#include "penstock/grpc/client/pull.h"

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLooks = std::chrono::milliseconds(50);  ///< Whether the worker is lost.

}  // namespace

class HeldSource::HeldHere final : public Held {
 public:
  HeldHere(std::shared_ptr<HeldSource> source, std::string ticket, DType dtype,
           std::vector<std::int64_t> dims, std::int64_t deadline_ns)
      : source_(std::move(source)),
        session_(source_->session_.load()),
        ticket_(std::move(ticket)),
        dtype_(dtype),
        dims_(std::move(dims)),
        deadline_ns_(deadline_ns) {}
  HeldHere(const HeldHere&) = delete;
  HeldHere& operator=(const HeldHere&) = delete;
  ~HeldHere() override { source_->release(ticket_); }

  [[nodiscard]] const std::string& address() const override { return source_->address_; }
  [[nodiscard]] const std::string& ticket() const override { return ticket_; }
  [[nodiscard]] const std::vector<std::int64_t>& dims() const override { return dims_; }
  /// What brings it here.
  [[nodiscard]] PullOrder order(Tensor& to) const {
    PullOrder order{ticket_, dtype_, dims_, {}, to};
    if (deadline_ns_ != INT64_MAX) {
      order.deadline = Clock::time_point(std::chrono::nanoseconds(deadline_ns_));
    }
    return order;
  }
  [[nodiscard]] bool is_lost() const override {
    return lost_ || source_->session_ != session_ || source_->is_lost();
  }
  void lose() const override { lost_ = true; }
  void read_by(const std::shared_ptr<InferCall>& call) const override {
    source_->note_reader(call);
  }
  Status read(Tensor& to) const override { return source_->read(*this, to); }

 private:
  const std::shared_ptr<HeldSource> source_;
  const std::uint64_t session_;
  mutable std::atomic<bool> lost_{false};
  const std::string ticket_;
  const DType dtype_;
  const std::vector<std::int64_t> dims_;
  const std::int64_t deadline_ns_;
};

void HeldSource::connected(const Connection& connection, const std::shared_ptr<Line>& line,
                           bool same_session) {
  {
    const std::scoped_lock lock(mutex_);
    connection_ = std::make_shared<const Connection>(connection);
    line_ = line;
    lost_ = false;
    if (!same_session) {
      tickets_.clear();
      released_.clear();
      ++session_;
    }
  }
  tell_released();
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
                                             std::vector<std::int64_t> dims,
                                             std::int64_t deadline_ns) {
  return std::make_shared<const HeldHere>(shared_from_this(), std::move(ticket), dtype,
                                          std::move(dims), deadline_ns);
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

void HeldSource::arrived(const std::vector<std::string>& tickets) {
  const std::scoped_lock lock(mutex_);
  tickets_.insert(tickets.begin(), tickets.end());
}

// Moves nodes of the sets: only to tell the worker needs memory.
void HeldSource::release(const std::string& ticket) noexcept {
  {
    const std::scoped_lock lock(mutex_);
    auto ours = tickets_.extract(ticket);
    if (ours.empty()) return;
    released_.insert(std::move(ours));
  }
  tell_released();
}

void HeldSource::tell_released() noexcept {
  std::set<std::string> released;
  std::shared_ptr<Line> line;
  {
    const std::scoped_lock lock(mutex_);
    line = line_.lock();
    if (lost_ || line == nullptr || released_.empty()) return;
    released.swap(released_);
  }
  try {
    line->release(released);
  } catch (const std::bad_alloc&) {
    const std::scoped_lock lock(mutex_);
    released_.merge(released);  // Told with the next one: a worker passes over those it knows not.
  }
}

std::vector<std::string> HeldSource::tickets() const {
  const std::scoped_lock lock(mutex_);
  return {tickets_.begin(), tickets_.end()};
}

Status HeldSource::read(const HeldHere& held, Tensor& to) const {
  const auto gone = [&] {
    held.lose();  // Though the worker may be back in a moment.
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
  const auto pull = start_pull(connection, address_, held.order(to), [&](Result<Tensor> result) {
    const std::scoped_lock lock(mutex);
    pulled = std::move(result);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  std::uint64_t had = 0;
  auto moved = Clock::now();
  bool lost = false, stands = false;
  while (!changed.wait_for(lock, kLooks, [&] { return pulled.has_value(); })) {
    const std::uint64_t has = pull->pieces();
    if (std::exchange(had, has) != has) moved = Clock::now();
    lost = is_lost();
    stands = Clock::now() - moved >= patience_;
    if (!lost && !stands) continue;
    pull->cancel();
    changed.wait(lock, [&] { return pulled.has_value(); });
  }
  if (*pulled) return {};
  if (lost || held.is_lost() || pulled->error().code == Code::kNotFound) return gone();
  if (pulled->error().code == Code::kDeadlineExceeded) {
    return make_error(Code::kCancelled, "its deadline has passed").within({Where::kPeer, address_});
  }
  held.lose();
  if (!stands) return std::move(*pulled).error();
  return make_error(Code::kUnavailable, "it sent nothing of a tensor for ",
                    std::chrono::duration_cast<std::chrono::milliseconds>(patience_).count(),
                    " ms (patience_ms)")
      .within({Where::kPeer, address_});
}

}  // namespace penstock::grpc
