// Starts as many threads as gRPC may, and ends them.
#include "penstock/grpc/client/thread_room.h"

#include <algorithm>
#include <future>
#include <thread>
#include <vector>

#include "penstock/base/thread.h"

namespace penstock::grpc {

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

}  // namespace penstock::grpc
