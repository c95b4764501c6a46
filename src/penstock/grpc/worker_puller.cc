// Keeps the connections to workers that were used last; measures links by echoes of growing size.
#include "penstock/grpc/worker_puller.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "penstock/device/address.h"
#include "penstock/grpc/client/moving.h"
#include "penstock/grpc/client/pull.h"
#include "penstock/grpc/worker.grpc.pb.h"

namespace penstock::grpc {
namespace {

using Clock = host::Clock;

constexpr std::size_t kMostWays = 64;
/// For a peer that says nothing.
constexpr auto kLongestMeasuring = std::chrono::seconds(30);

std::chrono::system_clock::time_point system_time(Clock::time_point time) {
  return std::chrono::system_clock::now() +
         std::chrono::duration_cast<std::chrono::system_clock::duration>(time - Clock::now());
}

/// A pull that a call of a stage waits for.
class PullOfCall final : public serve::Call {
 public:
  explicit PullOfCall(std::shared_ptr<Pull> pull) : pull_(std::move(pull)) {}
  void cancel() override { pull_->cancel(); }

 private:
  const std::shared_ptr<Pull> pull_;
};

}  // namespace

/// They may outlive the puller, by the pulls in progress.
struct WorkerPuller::Ways {
  struct Way {
    std::shared_ptr<const Connection> connection;
    std::uint64_t used = 0;
  };

  void forget(const std::string& address) {
    const std::scoped_lock lock(mutex);
    by_address.erase(address);
  }

  std::mutex mutex;  // Guards all below.
  std::map<std::string, Way> by_address;
  std::uint64_t uses = 0;
};

WorkerPuller::WorkerPuller(PeerOptions peers)
    : peers_(std::move(peers)), ways_(std::make_shared<Ways>()) {}

std::shared_ptr<serve::Call> WorkerPuller::pull(const host::Ticket& ticket, DType dtype,
                                                const std::vector<std::int64_t>& dims,
                                                std::optional<Clock::time_point> deadline,
                                                Done done) {
  auto connection = connect(ticket.address);
  if (!connection) {
    done(std::move(connection).error().within({Where::kPeer, ticket.address}));
    return nullptr;
  }
  auto finish = [ways = ways_, address = ticket.address,
                 told = std::move(done)](Result<Tensor> pulled) {
    if (!pulled && pulled.error().code == Code::kUnavailable) ways->forget(address);
    told(std::move(pulled));
  };
  return std::make_shared<PullOfCall>(start_pull(
      *std::move(connection), ticket.address,
      {.ticket = ticket.id, .dtype = dtype, .dims = dims, .deadline = deadline, .into = {}},
      std::move(finish)));
}

Result<std::shared_ptr<const Connection>> WorkerPuller::connect(const std::string& address) {
  const std::scoped_lock lock(ways_->mutex);
  auto& ways = ways_->by_address;
  auto& way = ways[address];
  way.used = ++ways_->uses;
  if (way.connection != nullptr) return way.connection;
  auto options = peers_;
  options.address = address;
  // In plain text it leaves this machine for nobody.
  if (!options.encrypted() && !device::is_loopback(address)) options.token.clear();
  auto opened = Connection::open(options);
  if (!opened) {
    ways.erase(address);
    return std::move(opened).error();
  }
  way.connection = std::make_shared<const Connection>(*std::move(opened));
  auto made = way.connection;
  if (ways.size() > kMostWays) {
    ways.erase(
        std::ranges::min_element(ways, {}, [](const auto& entry) { return entry.second.used; }));
  }
  return made;
}

void WorkerPuller::forget(const std::string& address) {
  ways_->forget(address);
}

// ------------------------------------------------------------------------------------------ links

namespace {

using Echoes = ::grpc::ClientReaderWriter<worker::EchoRequest, worker::EchoResponse>;

constexpr std::size_t kFewestRounds = 5, kMostRounds = 21;
constexpr std::size_t kFirstBytes = std::size_t{64} << 10;
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
constexpr double kEnoughSeconds = 0.03;
constexpr double kLeastShare = 0.1;  // Of an exchange that is the bytes' own.

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Seconds of one exchange; negative: the stream has broken.
double exchange(Echoes& echoes, std::size_t there, std::size_t back) {
  worker::EchoRequest request;
  request.set_payload(std::string(there, '\0'));
  request.set_answer_bytes(back);
  worker::EchoResponse response;
  const auto begin = Clock::now();
  if (!echoes.Write(request) || !echoes.Read(&response)) return -1;
  return seconds_since(begin);
}

/// More and more bytes, until they take long enough, or half as long as a round trip where the time
/// is over: a round trip varies, which must not pass for the bytes' own time.
double rate(Echoes& echoes, bool there, double round_trip, std::chrono::nanoseconds most) {
  const auto end = Clock::now() + most;
  for (std::size_t bytes = kFirstBytes;; bytes *= 2) {
    const double seconds = exchange(echoes, there ? bytes : 0, there ? 0 : bytes);
    if (seconds < 0) return -1;
    const double moving = std::max(seconds - round_trip, seconds * kLeastShare);
    const double enough =
        Clock::now() < end ? std::max(kEnoughSeconds, 2 * round_trip) : round_trip / 2;
    if (moving >= enough || bytes >= kMostBytes) return static_cast<double>(bytes) / moving;
  }
}

/// Seconds there and back, the median; negative: the stream has broken.
double round_trip_of(Echoes& echoes, std::chrono::nanoseconds most) {
  const auto end = Clock::now() + most;
  std::vector<double> rounds;
  while (rounds.size() < kFewestRounds || (rounds.size() < kMostRounds && Clock::now() < end)) {
    rounds.push_back(exchange(echoes, 0, 0));
    if (rounds.back() < 0) return -1;
  }
  std::ranges::sort(rounds);
  return rounds[rounds.size() / 2];
}

Result<LinkTimes> measure_in_turn(const Connection& connection, const std::string& address,
                                  std::chrono::nanoseconds most) {
  const auto begin = Clock::now();
  const auto stub = worker::Worker::NewStub(connection.channel());
  ::grpc::ClientContext context;
  connection.introduce(context);
  context.set_deadline(system_time(begin + most + kLongestMeasuring));
  const auto echoes = stub->Echo(&context);
  LinkTimes times;
  if (const double round_trip = round_trip_of(*echoes, most / 4); round_trip >= 0) {
    times.latency_seconds = round_trip / 2;
    times.there_bytes_per_second = rate(*echoes, true, round_trip, most / 2);
    times.back_bytes_per_second = rate(*echoes, false, round_trip, most / 2);
  }
  echoes->WritesDone();
  if (const auto status = echoes->Finish(); !status.ok()) return to_error(status, address);
  if (times.there_bytes_per_second > 0 && times.back_bytes_per_second > 0) return times;
  return make_error(Code::kUnavailable, "the link broke while it was measured")
      .within({Where::kPeer, address});
}

}  // namespace

Result<LinkTimes> measure_link(const Connection& connection, const std::string& address,
                               std::chrono::nanoseconds most,
                               worker::MeasureLinkRequest::Moving moving) {
  using Request = worker::MeasureLinkRequest;
  if (moving != Request::THERE && moving != Request::BACK) {
    return measure_in_turn(connection, address, most);
  }
  const bool there = moving == Request::THERE;
  LinkTimes times;
  PENSTOCK_TRY((there ? times.there_bytes_per_second : times.back_bytes_per_second),
               move_bytes(connection, address, there, most));
  return times;
}

}  // namespace penstock::grpc
