// Sessions by secret, each with its stages, contents and peers, until no beat renews its lease.
#include "penstock/host/session.h"

#include <utility>

#include "penstock/base/secret.h"

namespace penstock::host {

void Session::set_peers(std::set<std::string> peers) {
  const std::scoped_lock lock(mutex_);
  peers_ = std::move(peers);
}

bool Session::has_peer(const std::string& address) const {
  const std::scoped_lock lock(mutex_);
  return peers_.contains(address);
}

void Session::hold(HeldContent content) {
  const std::scoped_lock lock(mutex_);
  if (!ended_) contents_[content->file.filename().string()] = std::move(content);
}

Result<std::uint64_t> Session::add(std::shared_ptr<Stage> stage) {
  const std::scoped_lock lock(mutex_);
  if (ended_) return make_error(Code::kCancelled, "the session has ended meanwhile");
  stages_[next_] = std::move(stage);
  return next_++;
}

Result<std::shared_ptr<Stage>> Session::stage(std::uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = stages_.find(number);
  if (found != stages_.end()) return found->second;
  return not_found("no stage ", number, " in this session: it was closed, or never opened");
}

std::shared_ptr<Stage> Session::take(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  const auto found = stages_.find(number);
  if (found == stages_.end()) return nullptr;
  auto stage = std::move(found->second);
  stages_.erase(found);
  return stage;
}

std::uint64_t Session::times_taken_up() const {
  const std::scoped_lock lock(mutex_);
  return times_taken_up_;
}

void Session::take_up() {
  const std::scoped_lock lock(mutex_);
  ++times_taken_up_;
}

std::vector<std::shared_ptr<Stage>> Session::end() {
  const std::scoped_lock lock(mutex_);
  ended_ = true;
  contents_.clear();
  peers_.clear();
  std::vector<std::shared_ptr<Stage>> stages;
  for (auto& [number, stage] : std::exchange(stages_, {})) stages.push_back(std::move(stage));
  return stages;
}

bool Session::ended() const {
  const std::scoped_lock lock(mutex_);
  return ended_;
}

Result<std::shared_ptr<Session>> Sessions::open(const std::string& client,
                                                const std::string& caller,
                                                std::chrono::nanoseconds lease,
                                                Clock::time_point now) {
  PENSTOCK_TRY(const auto id, make_secret());
  const std::scoped_lock lock(mutex_);
  if (sessions_.size() >= most_) {
    return make_error(Code::kResourceExhausted, "this worker has ", most_,
                      " sessions, and so many are open; try again later");
  }
  const auto session = std::make_shared<Session>(++last_, id, client, caller, lease);
  session->heard_ = now;
  sessions_[id] = session;
  return session;
}

Result<std::shared_ptr<Session>> Sessions::find(const std::string& id,
                                                const std::string& client) const {
  const std::scoped_lock lock(mutex_);
  const auto found = sessions_.find(id);
  if (found != sessions_.end() && found->second->client_ == client) return found->second;
  return not_found("no such session: it was closed, or nothing was heard of it within its lease");
}

bool Sessions::beat(const Session& session, Clock::time_point now) {
  const std::scoped_lock lock(mutex_);
  const auto found = sessions_.find(session.id());
  if (found == sessions_.end()) return false;
  found->second->heard_ = now;
  return true;
}

std::shared_ptr<Session> Sessions::close(const Session& session) {
  const std::scoped_lock lock(mutex_);
  const auto found = sessions_.find(session.id());
  if (found == sessions_.end()) return nullptr;
  auto closed = std::move(found->second);
  sessions_.erase(found);
  return closed;
}

std::vector<std::shared_ptr<Session>> Sessions::expire(Clock::time_point now) {
  std::vector<std::shared_ptr<Session>> expired;
  const std::scoped_lock lock(mutex_);
  std::erase_if(sessions_, [&](auto& entry) {
    auto& session = entry.second;
    if (now - session->heard_ < session->lease_) return false;
    expired.push_back(std::move(session));
    return true;
  });
  return expired;
}

std::vector<std::shared_ptr<Session>> Sessions::close_all() {
  std::vector<std::shared_ptr<Session>> closed;
  const std::scoped_lock lock(mutex_);
  for (auto& [id, session] : std::exchange(sessions_, {})) closed.push_back(std::move(session));
  return closed;
}

std::size_t Sessions::count() const {
  const std::scoped_lock lock(mutex_);
  return sessions_.size();
}

}  // namespace penstock::host
