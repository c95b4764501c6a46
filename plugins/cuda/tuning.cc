// Times with the device's own events.
#include "tuning.h"

#include <algorithm>

namespace penstock::cuda {
namespace {

constexpr int kRounds = 3;
constexpr int kRunsInRound = 3;
/// Each byte of a number of about 0.01.
constexpr unsigned char kSmall = 0x3c;

}  // namespace

Result<Timer> Timer::create(Gpu& gpu) {
  Timer timer(gpu);
  PENSTOCK_CHECK_OK(gpu.use());
  const Driver& driver = gpu.driver();
  Stream stream = nullptr;
  PENSTOCK_CHECK_OK(gpu.check(driver.create_stream(&stream, kStreamNonBlocking), "stream"));
  timer.stream_ = {stream, driver.destroy_stream};
  for (auto* const made : {&timer.begin_, &timer.end_}) {
    Event event = nullptr;
    PENSTOCK_CHECK_OK(gpu.check(driver.create_event(&event, 0), "event"));
    *made = {event, driver.destroy_event};
  }
  return timer;
}

Result<DevicePointer> Timer::scratch(std::size_t bytes) {
  PENSTOCK_TRY(auto storage, gpu_->allocate(std::max<std::size_t>(bytes, 1)));
  const DevicePointer data = *storage;
  storage_.push_back(std::move(storage));
  PENSTOCK_CHECK_OK(gpu_->check(gpu_->driver().fill_bytes(data, kSmall, bytes, stream()), "fill"));
  return data;
}

Result<float> Timer::time(const std::function<Status()>& run) {
  const Driver& driver = gpu_->driver();
  PENSTOCK_CHECK_OK(run());
  PENSTOCK_CHECK_OK(gpu_->check(driver.synchronize_stream(stream()), "a first run"));
  float best = 0;
  for (int round = 0; round < kRounds; ++round) {
    PENSTOCK_CHECK_OK(gpu_->check(driver.record_event(begin_.get(), stream()), "event"));
    for (int i = 0; i < kRunsInRound; ++i) PENSTOCK_CHECK_OK(run());
    PENSTOCK_CHECK_OK(gpu_->check(driver.record_event(end_.get(), stream()), "event"));
    PENSTOCK_CHECK_OK(gpu_->check(driver.synchronize_event(end_.get()), "a timed run"));
    float ms = 0;
    PENSTOCK_CHECK_OK(gpu_->check(driver.elapsed(&ms, begin_.get(), end_.get()), "time"));
    best = round == 0 ? ms : std::min(best, ms);
  }
  return best / kRunsInRound;
}

}  // namespace penstock::cuda
