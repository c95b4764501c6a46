// Core: what all connections of a server share. It outlives the server while an answer is awaited.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "penstock/http/lease.h"
#include "penstock/http/server.h"
#include "penstock/http/turns.h"

namespace penstock::http {

/// What the server asks of a connection, by its own thread.
class Closable {
 public:
  virtual ~Closable() = default;
  virtual void stop() = 0;   ///< After the request in progress, if there is one.
  virtual void close() = 0;  ///< At once.
};

class Core {
 public:
  Core(Options given, Router routes)
      : options(std::move(given)),
        router(std::move(routes)),
        budget(std::make_shared<ByteBudget>(options.limits.bodies_bytes)),
        turns(options.threads) {}

  boost::asio::io_context context;
  const Options options;
  const Router router;
  const std::shared_ptr<ByteBudget> budget;
  Turns turns;  ///< Of costly bodies.

  /// Runs `work` by the executor. Does nothing once the server's threads have ended.
  template <typename Executor, typename Work>
  void post(const Executor& executor, Work work) {
    const std::scoped_lock lock(mutex_);
    if (running_) boost::asio::post(executor, std::move(work));
  }

  /// False where there are as many as there may be.
  bool enter(Closable* connection) {
    const std::scoped_lock lock(mutex_);
    if (stopping_ || connections_.size() >= options.limits.connections) return false;
    connections_.insert(connection);
    return true;
  }
  void leave(Closable* connection) {
    const std::scoped_lock lock(mutex_);
    if (connections_.erase(connection) == 0) return;
    if (connections_.empty()) none_left_.notify_all();
  }
  [[nodiscard]] std::size_t connections() const {
    const std::scoped_lock lock(mutex_);
    return connections_.size();
  }

  /// Those connected now; no others come.
  template <typename Each>
  void stop_all(Each each) {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    for (Closable* connection : connections_) each(*connection);
  }
  bool wait_until_empty(std::chrono::nanoseconds timeout) {
    std::unique_lock lock(mutex_);
    return none_left_.wait_for(lock, timeout, [this] { return connections_.empty(); });
  }
  /// The threads have ended: what was posted meanwhile is done here.
  void end() {
    {
      const std::scoped_lock lock(mutex_);
      running_ = false;
    }
    context.restart();
    context.poll();
    turns.forget_waiting();  // They hold connections, which hold this.
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable none_left_;
  std::set<Closable*> connections_;
  bool stopping_ = false;
  bool running_ = true;
};

}  // namespace penstock::http
