// Holds weak references to the calls, and ends all with UNAVAILABLE when the server stops.
#include "penstock/grpc/lasting_calls.h"

#include <algorithm>
#include <utility>

#include "penstock/grpc/client/worker_messages.h"

namespace penstock::grpc {
namespace {

::grpc::Status leaving() {
  return to_worker_status(make_error(Code::kUnavailable, "the server is shutting down"));
}

}  // namespace

void LastingCalls::add(const std::shared_ptr<LastingCall>& call) {
  {
    const std::scoped_lock lock(mutex_);
    if (!ended_) {
      std::erase_if(calls_, [](const auto& one) { return one.expired(); });
      calls_.push_back(call);
      return;
    }
  }
  call->leave(leaving());
}

void LastingCalls::end() {
  std::vector<std::weak_ptr<LastingCall>> calls;
  {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    calls = calls_;
  }
  for (const auto& call : calls) {
    if (const auto lasting = call.lock()) lasting->leave(leaving());
  }
}

bool LastingCalls::all_gone() {
  const std::scoped_lock lock(mutex_);
  return std::ranges::all_of(calls_, [](const auto& call) { return call.expired(); });
}

}  // namespace penstock::grpc
