// Keeps frames in lists by push and by stream under a lock, which callbacks run without.
#include "penstock/pipeline/delivery.h"

#include <algorithm>
#include <new>
#include <utility>

#include "penstock/base/thread.h"
#include "penstock/base/words.h"
#include "penstock/pipeline/guarded.h"
#include "penstock/pipeline/state.h"
#include "penstock/pipeline/timeout.h"

namespace penstock::pipeline {
namespace {

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): each thread's own
thread_local const Turns* t_called_back = nullptr;  // Of the pipeline in whose callback it is.

// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): each thread's own
thread_local bool t_is_brief = false;  // The innermost callback that it is in.

}  // namespace

bool Delivery::is_in_brief_callback() {
  return t_is_brief;
}

bool Delivery::is_in_callback(const Turns& turns) {
  return t_called_back == &turns;
}

void Delivery::List::append(Entry* entry) {
  entry->next = nullptr;
  (first == nullptr ? first : last->next) = entry;
  last = entry;
}

Status Delivery::start(State& state) {
  if (runner_.load(std::memory_order_acquire) != Runner::kNone) return {};
  try {
    std::vector<Entry> entries(state.records.size());
    const std::scoped_lock lock(mutex_);  // Who drains may look.
    entries_ = std::move(entries);
  } catch (const std::bad_alloc&) {
    return out_of_memory();
  }
  state_ = &state;
  state.loans.expect_callbacks();
  const std::scoped_lock lock(mutex_);
  PENSTOCK_CHECK_OK(start_thread(thread_, [this] { loop(); }));
  runner_.store(Runner::kRuns, std::memory_order_release);
  return {};
}

void Delivery::make_room(Streams::Seat seat) {
  const std::scoped_lock lock(mutex_);
  if (seat >= last_of_.size()) last_of_.resize(seat + std::size_t{1});
}

void Delivery::expect(FrameNumber frame, Done done, const FrameOptions& options) {
  const std::scoped_lock lock(mutex_);
  Entry& entry = entries_[frame & state_->window_mask];
  entry.frame = frame;
  entry.done = std::move(done);
  entry.in_order = options.in_order;
  entry.brief = options.brief;
  entry.ready = false;
  entry.seat = state_->record(frame).seat.load(std::memory_order_relaxed);
  put_behind_its_stream(entry);
  if (entry.in_order) in_order_.append(&entry);
}

void Delivery::put_behind_its_stream(Entry& entry) {
  Entry* before = std::exchange(last_of_[entry.seat], &entry);
  if (before == &entry) before = nullptr;  // Its frame was called back long ago.
  entry.follower = nullptr;
  entry.follows = before != nullptr && before->done && before->seat == entry.seat;
  if (entry.follows) before->follower = &entry;
}

void Delivery::ready(FrameNumber frame, bool idle) {
  std::unique_lock lock(mutex_);
  Entry& entry = entries_[frame & state_->window_mask];
  make_ready(entry);
  if (idle && entry.brief && next() == &entry) call(entry, lock);
  const bool more = next() != nullptr;
  lock.unlock();
  if (more) changed_.notify_one();
}

void Delivery::make_ready(Entry& entry) {
  entry.ready = true;
  list_if_due(entry);
}

void Delivery::list_if_due(Entry& entry) {
  if (entry.ready && !entry.follows && !entry.in_order) due_.append(&entry);
}

void Delivery::hold() {
  const std::scoped_lock lock(mutex_);
  held_ = true;
}

void Delivery::release() {
  {
    const std::scoped_lock lock(mutex_);
    held_ = false;
  }
  changed_.notify_one();
}

Delivery::Entry* Delivery::next() const {
  if (calling_ || (held_ && !ends_)) return nullptr;
  if (due_.first != nullptr) return due_.first;
  Entry* const first = in_order_.first;
  return first != nullptr && first->ready && !first->follows ? first : nullptr;
}

void Delivery::take(Entry& entry) {
  (entry.in_order ? in_order_ : due_).take();
  if (entry.follower == nullptr) return;
  entry.follower->follows = false;
  list_if_due(*entry.follower);
}

void Delivery::loop() {
  std::shared_ptr<State> kept;  // Goes after the lock, which is the state's.
  std::unique_lock lock(mutex_);
  for (;;) {
    if (Entry* const entry = next()) {
      calling_here_ = true;
      call(*entry, lock);
      calling_here_ = false;
    } else if (ends_ && !calling_) {
      break;
    } else {
      changed_.wait(lock);
    }
  }
  kept = std::move(kept_);
  if (runner_ == Runner::kRuns) runner_ = Runner::kEnded;
  ended_.notify_all();
}

void Delivery::call(Entry& entry, std::unique_lock<std::mutex>& lock) {
  take(entry);
  const FrameNumber frame = entry.frame;
  Done done = std::exchange(entry.done, nullptr);
  const bool is_brief = entry.brief;
  calling_ = true;
  called_ = frame;
  lock.unlock();
  const Turns* const before = std::exchange(t_called_back, state_->turns.get());
  const bool was_brief = std::exchange(t_is_brief, is_brief);
  // Whoever throws in a callback has nobody to tell: the thread is ours, the frame is out.
  static_cast<void>(guarded([&]() -> Status {
    done(Output(state_->shared_from_this(), frame, Output::By::kCallback));
    return {};
  }));
  t_called_back = before;
  t_is_brief = was_brief;
  done = nullptr;  // What it holds may want the lock.
  lock.lock();
  calling_ = false;
  returned_.notify_all();
}

std::size_t Delivery::uncalled(FrameNumber end) const {
  const auto waits = [&](const Entry& entry) { return entry.done && entry.frame < end; };
  return static_cast<std::size_t>(std::ranges::count_if(entries_, waits)) +
         (calling_ && called_ < end ? 1U : 0U);
}

std::size_t Delivery::wait_until_called(FrameNumber end, std::int64_t deadline) {
  std::unique_lock lock(mutex_);
  wait_until(returned_, lock, deadline, [&] { return uncalled(end) == 0; });
  return uncalled(end);
}

void Delivery::cancel_what_stages_left() {
  for (auto& entry : entries_) {
    if (!entry.done || entry.ready) continue;
    state_->record(entry.frame).fail(Outcome::kCancelled, [&] { return state_->ending.error(); });
    make_ready(entry);
  }
}

bool Delivery::finish(std::int64_t deadline) {
  std::unique_lock lock(mutex_);
  if (runner_ == Runner::kNone) return true;
  cancel_what_stages_left();
  ends_ = true;
  changed_.notify_one();
  return wait_until(ended_, lock, deadline, [&] { return runner_ != Runner::kRuns; });
}

void Delivery::end() {
  finish(kNever);
  const std::scoped_lock lock(mutex_);
  if (thread_.joinable()) thread_.join();  // It needs the lock no more.
}

std::optional<std::string> Delivery::leave_behind() {
  const std::scoped_lock lock(mutex_);
  if (runner_ != Runner::kRuns || !calling_here_) return std::nullopt;
  kept_ = state_->shared_from_this();
  thread_.detach();
  runner_ = Runner::kLeftBehind;
  ended_.notify_all();
  Result<std::string> told = guarded([&]() -> Result<std::string> {
    return concat(
        "the callback of frame ", called_,
        " goes on; the pipeline ends without it, and leaves its thread behind, which gives "
        "the frames after it to their callbacks once it returns");
  });
  return told ? *std::move(told) : std::string();
}

}  // namespace penstock::pipeline
