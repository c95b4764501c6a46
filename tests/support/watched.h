// A thread of a test, of which the test can see when it sleeps.
#pragma once

#include <atomic>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "penstock/base/error.h"
#include "penstock/device/affinity.h"

namespace penstock::testing {

/// A thread to be looked at while it runs `body`.
struct Watched {
  explicit Watched(std::function<void()> body)
      : thread([this, run = std::move(body)] {
          id = device::this_thread_id();
          run();
        }) {}

  void wait_until_asleep() const {
    for (std::string state; state != "S"; std::this_thread::yield()) {
      if (id == 0) continue;
      std::ifstream stat(concat("/proc/self/task/", id.load(), "/stat"));
      std::string number, name;
      stat >> number >> name >> state;
    }
  }

  std::atomic<int> id{0};
  std::thread thread;  // Last: it uses the rest.
};

}  // namespace penstock::testing
