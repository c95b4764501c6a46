// Pushes at once where nobody waits; else one thread pushes by priority and refuses late requests.
#include "penstock/serve/admission.h"

#include <algorithm>
#include <utility>

#include "penstock/base/thread.h"
#include "penstock/base/words.h"
#include "penstock/pipeline/guarded.h"

namespace penstock::serve {
namespace {

using std::chrono::milliseconds;

/// How long a push waits before those behind it are looked at again: cancelled, late, or of a
/// higher priority.
constexpr auto kPatience = milliseconds(10);
constexpr auto kBetweenTries = milliseconds(1);

Error late() {
  auto told = pipeline::guarded([]() -> Status {
    return make_error(Code::kDeadlineExceeded,
                      "Request timeout expired: it waited for room in the pipeline");
  });
  return std::move(told).error();
}

bool is_late(const Entrant& entrant, std::chrono::steady_clock::time_point now) {
  const auto deadline = entrant.deadline();
  return deadline && *deadline <= now;
}

}  // namespace

Result<std::unique_ptr<Admission>> Admission::start(std::size_t most_waiting,
                                                    std::function<bool()> between) {
  std::unique_ptr<Admission> made(new Admission(most_waiting, std::move(between)));
  PENSTOCK_CHECK_OK(start_thread(made->thread_, [admission = made.get()] { admission->loop(); }));
  return made;
}

Admission::~Admission() {
  if (!thread_.joinable()) return;
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Admission::Queue& Admission::queue_of(const Entrant& entrant) {
  return entrant.priority() == pipeline::Priority::kHigh ? high_ : normal_;
}

void Admission::add(const std::shared_ptr<Entrant>& entrant) {
  Status pushed;
  {
    const std::scoped_lock lock(mutex_);
    if (count() == 0) {
      pushed = entrant->push(std::chrono::nanoseconds(0));
      if (pushed) return;
    }
    if (pushed || pushed.error().code == Code::kDeadlineExceeded) {
      if (count() < most_waiting_) {
        queue_of(*entrant).push_back(entrant);
        changed_.notify_one();
        return;
      }
      pushed = make_error(Code::kResourceExhausted,
                          "Exceeds maximum queue size: ", counted(most_waiting_, "request"),
                          " may wait for this model; try again later");
    }
  }
  entrant->refuse(std::move(pushed).error());
}

bool Admission::remove(const Entrant& entrant) {
  const std::scoped_lock lock(mutex_);
  return std::erase_if(queue_of(entrant),
                       [&](const auto& waiting) { return waiting.get() == &entrant; }) > 0;
}

void Admission::wake() {
  const std::scoped_lock lock(mutex_);
  asked_ = true;
  changed_.notify_one();
}

std::size_t Admission::waiting() const {
  const std::scoped_lock lock(mutex_);
  return count();
}

void Admission::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || asked_ || count() > 0; });
    if (ends_) return;
    if (std::exchange(asked_, false)) {
      lock.unlock();
      const bool done = between_();
      lock.lock();
      asked_ = asked_ || !done;
    }
    refuse_late(lock);
    if (count() > 0) {
      push_first(lock);
    } else if (asked_) {
      changed_.wait_for(lock, kBetweenTries);
    }
  }
}

void Admission::push_first(std::unique_lock<std::mutex>& lock) {
  Queue& queue = high_.empty() ? normal_ : high_;
  const auto first = std::move(queue.front());
  queue.pop_front();
  pushing_ = true;
  lock.unlock();
  Status pushed = first->push(kPatience);
  const bool no_room = !pushed && pushed.error().code == Code::kDeadlineExceeded;
  if (!pushed && !no_room) first->refuse(std::move(pushed).error());
  lock.lock();
  pushing_ = false;
  if (!no_room) return;
  const Status waits = pipeline::guarded([&]() -> Status {
    queue.push_front(first);
    return {};
  });
  if (waits) return;
  lock.unlock();
  first->refuse(out_of_memory());
  lock.lock();
}

/// One after the other, in their order: so that it needs no memory.
void Admission::refuse_late(std::unique_lock<std::mutex>& lock) {
  const auto now = Clock::now();
  const auto refuse_first = [&](Queue& queue) {
    const auto first =
        std::ranges::find_if(queue, [&](const auto& waiting) { return is_late(*waiting, now); });
    if (first == queue.end()) return false;
    auto entrant = std::move(*first);
    queue.erase(first);
    lock.unlock();
    entrant->refuse(late());
    entrant.reset();
    lock.lock();
    return true;
  };
  while (refuse_first(high_) || refuse_first(normal_)) {
  }
}

}  // namespace penstock::serve
