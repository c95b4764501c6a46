// Sessions: what callers have here, each for as long as it is heard of.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/host/contents.h"
#include "penstock/host/stage.h"
#include "penstock/host/tickets.h"

namespace penstock::host {

using Clock = std::chrono::steady_clock;

/// \threads  all functions may be called from any thread.
class Session {
 public:
  Session(Owner number, std::string id, std::string client, std::string caller,
          std::chrono::nanoseconds lease)
      : number_(number),
        id_(std::move(id)),
        client_(std::move(client)),
        caller_(std::move(caller)),
        lease_(lease) {}

  [[nodiscard]] Owner number() const { return number_; }
  [[nodiscard]] const std::string& id() const { return id_; }  ///< A secret.
  [[nodiscard]] const std::string& caller() const { return caller_; }
  [[nodiscard]] std::chrono::nanoseconds lease() const { return lease_; }

  /// Addresses of workers whose tickets calls may name. The last ones hold.
  void set_peers(std::set<std::string> peers);
  [[nodiscard]] bool has_peer(const std::string& address) const;

  /// Keeps a content from being taken away. Nothing where the session has ended.
  void hold(HeldContent content);

  /// \error kCancelled  the session has ended meanwhile.
  Result<std::uint64_t> add(std::shared_ptr<Stage> stage);
  /// \error kNotFound
  [[nodiscard]] Result<std::shared_ptr<Stage>> stage(std::uint64_t number) const;
  /// Null: there is none.
  std::shared_ptr<Stage> take(std::uint64_t number);

  /// How often it was taken up again: what calls that began before that keep, nobody is told of.
  [[nodiscard]] std::uint64_t times_taken_up() const;
  void take_up();

  /// What it had, for who closes it. From now on it holds nothing.
  std::vector<std::shared_ptr<Stage>> end();
  [[nodiscard]] bool ended() const;

 private:
  friend class Sessions;
  const Owner number_;
  const std::string id_;
  const std::string client_;  // Who opened it, by the name that the server knows; may be empty.
  const std::string caller_;
  const std::chrono::nanoseconds lease_;
  Clock::time_point heard_;  // Guarded by Sessions.

  mutable std::mutex mutex_;  // Guards all below.
  std::uint64_t times_taken_up_ = 0;
  std::set<std::string> peers_;
  std::map<std::string, HeldContent> contents_;
  std::map<std::uint64_t, std::shared_ptr<Stage>> stages_;
  std::uint64_t next_ = 1;
  bool ended_ = false;
};

/// \threads  all functions may be called from any thread. Times never go back.
class Sessions {
 public:
  explicit Sessions(std::size_t most) : most_(most) {}

  /// \error kResourceExhausted  so many are open.
  Result<std::shared_ptr<Session>> open(const std::string& client, const std::string& caller,
                                        std::chrono::nanoseconds lease, Clock::time_point now);
  /// `client` must be who opened it. \error kNotFound  none of that id, or it is another's.
  [[nodiscard]] Result<std::shared_ptr<Session>> find(const std::string& id,
                                                      const std::string& client) const;
  /// Renews the lease. False: it has ended.
  bool beat(const Session& session, Clock::time_point now);

  /// Takes one out, or all that were not heard of within their lease. Its end() is the caller's.
  std::shared_ptr<Session> close(const Session& session);
  std::vector<std::shared_ptr<Session>> expire(Clock::time_point now);
  std::vector<std::shared_ptr<Session>> close_all();

  [[nodiscard]] std::size_t count() const;

 private:
  const std::size_t most_;
  mutable std::mutex mutex_;  // Guards all below.
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  Owner last_ = 0;
};

}  // namespace penstock::host
