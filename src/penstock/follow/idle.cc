// Spins a thread of idle priority on each CPU in turn, and measures the share of time that it gets.
#include "penstock/follow/idle.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "penstock/base/thread.h"
#include "penstock/device/affinity.h"

namespace penstock::follow {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kInterval{1};

}  // namespace

Status IdleProbe::start() {
  auto everywhere = device::cpus_of_thread(device::this_thread_id());
  return start_thread(thread_, [this, everywhere = std::move(everywhere)] { run(everywhere); });
}

void IdleProbe::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  woken_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void IdleProbe::watch(std::vector<int> cpus) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(
      idle_, [&](const auto& known) { return std::ranges::find(cpus, known.first) == cpus.end(); });
  cpus_ = std::move(cpus);
}

std::map<int, double> IdleProbe::idle() const {
  const std::scoped_lock lock(mutex_);
  return idle_;
}

/// The time that the thread had on the CPU over that which went by; none: it may not run there.
std::optional<double> IdleProbe::measure(int cpu) const {
  if (!device::pin_this_thread({cpu})) return std::nullopt;
  const double before = device::computed_seconds();
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration_cast<Clock::duration>(share_ * kInterval);
  while (Clock::now() < end) {
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  return std::clamp((device::computed_seconds() - before) / seconds, 0.0, 1.0);
}

/// `everywhere`: where the thread sleeps, to be woken where there is room.
void IdleProbe::run(const std::vector<int>& everywhere) {
  device::name_this_thread("idle probe");
  if (!device::take_what_is_idle()) return;
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    lock.unlock();
    try {
      look(everywhere);
    } catch (const std::bad_alloc&) {  // What is not known is not said.
      const std::scoped_lock again(mutex_);
      idle_.clear();
    }
    lock.lock();
    woken_.wait_for(lock, kInterval, [this] { return stopping_; });
  }
}

/// At all that it watches.
void IdleProbe::look(const std::vector<int>& everywhere) {
  std::unique_lock lock(mutex_);
  const auto cpus = cpus_;
  lock.unlock();
  std::map<int, std::optional<double>> found;
  for (const int cpu : cpus) {
    found[cpu] = measure(cpu);
    lock.lock();
    const bool stopping = stopping_;
    lock.unlock();
    if (stopping) break;
  }
  (void)device::pin_this_thread(everywhere);
  lock.lock();
  for (const auto& [cpu, idle] : found) {
    if (!idle) {
      idle_.erase(cpu);
    } else if (std::ranges::find(cpus_, cpu) != cpus_.end()) {
      idle_[cpu] = *idle;
    }
  }
}

}  // namespace penstock::follow
