// Writes echoes on a thread of its own while answers are counted, then waits for the last ones.
#include "penstock/grpc/client/moving.h"

#include <atomic>
#include <semaphore>
#include <thread>

#include "penstock/base/thread.h"
#include "penstock/grpc/worker.grpc.pb.h"

namespace penstock::grpc {
namespace {

using MovingClock = std::chrono::steady_clock;
using Echoing = ::grpc::ClientReaderWriter<worker::EchoRequest, worker::EchoResponse>;

constexpr std::size_t kMovedPiece = std::size_t{64} << 10;
constexpr int kMostUnderWay = 16;
constexpr auto kRest = std::chrono::seconds(20);  // Of the pieces that are under way then.

/// What arrived, and when.
struct Arrivals {
  int pieces = 0;
  MovingClock::time_point first, last;
};

/// Keeps pieces under way until `end`, when one has arrived. The others are waited for: they would
/// disturb what is measured next. \error as start_thread(): nothing was moved.
Result<Arrivals> move_until(Echoing& echo, bool there, MovingClock::time_point end) {
  std::counting_semaphore<2 * kMostUnderWay> room(kMostUnderWay);
  std::atomic<bool> enough = false;
  std::thread writer;
  PENSTOCK_CHECK_OK(start_thread(writer, [&] {
    worker::EchoRequest request;
    if (there) request.mutable_payload()->assign(kMovedPiece, '\0');
    request.set_answer_bytes(there ? 0 : kMovedPiece);
    do {
      room.acquire();
    } while (!enough && echo.Write(request));
    echo.WritesDone();
  }));
  Arrivals arrivals;
  worker::EchoResponse response;
  bool broken = false;
  while (arrivals.pieces == 0 || arrivals.last < end) {
    broken = !echo.Read(&response);
    if (broken) break;
    arrivals.last = MovingClock::now();
    if (arrivals.pieces++ == 0) arrivals.first = arrivals.last;
    room.release();
  }
  enough = true;
  room.release();
  while (!broken && echo.Read(&response)) {
  }
  writer.join();
  return arrivals;
}

}  // namespace

Result<double> move_bytes(const Connection& connection, const std::string& address, bool there,
                          std::chrono::nanoseconds lasts) {
  const auto stub = worker::Worker::NewStub(connection.channel());
  ::grpc::ClientContext context;
  connection.introduce(context);
  const auto most = std::chrono::ceil<std::chrono::milliseconds>(lasts + kRest);
  context.set_deadline(std::chrono::system_clock::now() + most);
  const auto echo = stub->Echo(&context);
  const auto begin = MovingClock::now();
  const auto moved = move_until(*echo, there, begin + lasts);
  if (!moved) context.TryCancel();
  const auto status = echo->Finish();
  PENSTOCK_TRY(const Arrivals arrivals, moved);
  if (arrivals.pieces > 0 && arrivals.last >= begin + lasts) {
    const bool alone = arrivals.pieces == 1;
    const std::chrono::duration<double> took = arrivals.last - (alone ? begin : arrivals.first);
    return static_cast<double>(kMovedPiece) * (alone ? 1 : arrivals.pieces - 1) / took.count();
  }
  if (!status.ok()) return to_error(status, address);
  return make_error(Code::kUnavailable, "the link broke while it was measured")
      .within({Where::kPeer, address});
}

}  // namespace penstock::grpc
