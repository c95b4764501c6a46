// Tells a forked process by its number; starts as many threads as gRPC may, and ends them.
#include "penstock/grpc/client/may_start.h"

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include <unistd.h>

#include "penstock/base/thread.h"

namespace penstock::grpc {
namespace {

std::atomic<::pid_t> g_user{0};  // The process that asked first.

/// Also where the use before the fork has ended: gRPC ends on threads of its own, some time later.
Status check_process() {
  const ::pid_t self = ::getpid();
  ::pid_t user = 0;
  if (g_user.compare_exchange_strong(user, self) || user == self) return {};
  return make_error(Code::kFailedPrecondition, "this process was forked from process ", user,
                    " after that had used gRPC (connect, serve or a stage on another machine), "
                    "which does not survive a fork: fork before the first use, or start a new "
                    "process, in Python by multiprocessing's start method 'spawn'");
}

Status check_thread_room() {
  // Its pool begins with one for each CPU, at least 4 and at most 16; it adds some where these
  // wait, and has timers and pollers. A stage elsewhere has up to four of ours beside them.
  const unsigned count = std::clamp(std::thread::hardware_concurrency(), 4U, 16U) + 12;
  std::promise<void> end;
  const std::shared_future<void> ended = end.get_future().share();
  std::vector<std::thread> threads(count);
  Status room;
  for (auto& thread : threads) {
    if (room) room = start_thread(thread, [ended] { ended.wait(); });
  }
  end.set_value();
  for (auto& thread : threads) {
    if (thread.joinable()) thread.join();
  }
  return room;
}

}  // namespace

Status check_may_start() {
  PENSTOCK_CHECK_OK(check_process());
  return check_thread_room();
}

}  // namespace penstock::grpc
