// Exchange: one request and its answer, between the connection's thread and whoever answers.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "penstock/http/message.h"

namespace penstock::http {

/// What an exchange asks of its connection. Any thread may call.
class Outlet {
 public:
  virtual ~Outlet() = default;
  virtual void answer(Response response, bool streams) = 0;
  virtual void append(std::string text) = 0;  ///< To the stream.
  virtual void end_stream() = 0;
  /// Ends the connection, which can be told nothing any more, so that its client does not wait.
  virtual void abandon() noexcept = 0;
};

class Exchange {
 public:
  explicit Exchange(std::shared_ptr<Outlet> outlet) : outlet_(std::move(outlet)) {}
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;
  ~Exchange() {
    try {
      end();
    } catch (...) {  // There is no memory to say so.
      outlet_->abandon();
    }
  }

  void answer(Response response, bool streams) {
    if (answered_.exchange(true)) return;
    streams_ = streams;
    if (!streams) forget();
    try {
      outlet_->answer(std::move(response), streams);
    } catch (...) {
      outlet_->abandon();
      throw;
    }
  }

  /// Whole, so that nothing is to be cancelled any more.
  [[nodiscard]] bool is_answered() const { return answered_ && !streams_; }

  /// As Stream::write().
  bool append(std::string text, std::size_t most_waiting) {
    if (gone_ || waiting_ + text.size() > most_waiting) return false;
    waiting_ += text.size();
    outlet_->append(std::move(text));
    return true;
  }
  /// So many bytes of the stream have left.
  void sent(std::size_t bytes) { waiting_ -= bytes; }

  void on_gone(std::function<void()> gone) {
    std::unique_lock lock(mutex_);
    if (answered_ && !streams_) return;
    if (!gone_) {
      on_gone_ = std::move(gone);
      return;
    }
    lock.unlock();
    gone();
  }

  /// The client has left.
  void leave() {
    std::function<void()> gone;
    {
      const std::scoped_lock lock(mutex_);
      gone_ = true;
      gone = std::exchange(on_gone_, nullptr);
    }
    if (gone) gone();
  }

 private:
  void end() {
    if (streams_) return outlet_->end_stream();
    if (answered_) return;
    answer(error_response(500, "the server lost the request; this is a bug of Penstock"), false);
  }
  /// What is to be done when the client leaves may hold this exchange.
  void forget() {
    std::function<void()> gone;
    const std::scoped_lock lock(mutex_);
    gone.swap(on_gone_);
  }

  std::shared_ptr<Outlet> outlet_;
  std::atomic<bool> answered_ = false;
  std::atomic<bool> streams_ = false;
  std::atomic<bool> gone_ = false;
  std::atomic<std::size_t> waiting_ = 0;  // Bytes of the stream.
  std::mutex mutex_;
  std::function<void()> on_gone_;  // Guarded by mutex_.
};

}  // namespace penstock::http
