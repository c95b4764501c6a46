// Calls Describe, Echo, MeasureLink and Measure of a worker while a thread keeps the session.
#include "penstock/grpc/client/worker_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <thread>

#include "penstock/base/hash.h"
#include "penstock/base/quantile.h"
#include "penstock/base/thread.h"
#include "penstock/base/version.h"
#include "penstock/device/affinity.h"
#include "penstock/grpc/client/may_start.h"
#include "penstock/grpc/client/moving.h"
#include "penstock/grpc/client/oneof.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/worker_messages.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/worker.grpc.pb.h"

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr auto kPatience = std::chrono::seconds(20);  // Engines are loaded to be described.
constexpr auto kBeat = milliseconds(500);
constexpr auto kLease = std::chrono::seconds(20);
constexpr int kWords = 21;              // There and back, for the latency.
constexpr double kEnoughSeconds = 0.2;  // Of sending, for the bandwidth.
constexpr std::size_t kLeastPieces = 1, kMostPieces = 256;
constexpr std::size_t kPiece = std::size_t{256} << 10U;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

device::Topology read_topology(const worker::DescribeResponse& message) {
  device::Topology topology;
  topology.cpu_model = message.cpu_model();
  topology.fingerprint = message.fingerprint();
  topology.memory_bytes = message.memory_bytes();
  if (message.cpu_quota() > 0) topology.cpu_quota = message.cpu_quota();
  for (const auto& cpu : message.cpus()) {
    topology.cpus.push_back({cpu.number(),
                             cpu.core(),
                             cpu.package(),
                             cpu.numa_node(),
                             cpu.kind(),
                             {cpu.siblings().begin(), cpu.siblings().end()}});
  }
  for (const auto& cache : message.caches()) {
    topology.caches.push_back({cache.level(),
                               cache.size_bytes(),
                               cache.line_bytes(),
                               {cache.cpus().begin(), cache.cpus().end()}});
  }
  for (const auto& node : message.numa_nodes()) {
    topology.numa_nodes.push_back(
        {node.number(), node.memory_bytes(), {node.cpus().begin(), node.cpus().end()}});
  }
  return topology;
}

WorkerDescription read_description(const worker::DescribeResponse& message) {
  WorkerDescription description;
  description.host = message.host();
  description.penstock = message.penstock();
  description.topology = read_topology(message);
  description.memory_left_bytes = message.memory_left_bytes();
  for (const auto& backend : message.backends()) {
    description.backends.push_back(
        {backend.name(), backend.engine_version(), backend.unavailable()});
  }
  return description;
}

}  // namespace

struct WorkerProbe::State {
  PeerOptions options;
  Connection connection;
  std::unique_ptr<worker::Worker::Stub> stub;
  WorkerDescription description;
  std::size_t piece = kPiece;
  std::string session;

  // The session's stream, and the thread that keeps it.
  ::grpc::ClientContext session_context;
  std::unique_ptr<::grpc::ClientReaderWriter<worker::SessionRequest, worker::SessionResponse>>
      stream;
  std::thread beats;
  std::mutex mutex;
  std::condition_variable wake;
  bool leaving = false, left = false;

  std::int64_t cpu_ns = 0;  // Of the worker, as its last echo told it.

  explicit State(PeerOptions given) : options(std::move(given)) {}
  ~State();

  void prepare(::grpc::ClientContext& context, std::chrono::nanoseconds patience) const {
    connection.introduce(context);
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::duration_cast<std::chrono::microseconds>(patience));
  }
  Status end(const ::grpc::Status& status) const {
    if (status.ok()) return {};
    return to_error(status, options.address);
  }

  Status describe();
  Status open(const std::vector<std::string>& peers);
  void beat();

  using Echo = ::grpc::ClientReaderWriter<worker::EchoRequest, worker::EchoResponse>;
  /// Seconds, and CPU seconds of the worker since its last answer of the exchange before.
  struct Exchanged {
    double seconds = 0, cpu_seconds = 0;
  };
  /// `count` requests of so many bytes each, answered by as many of the others.
  Result<Exchanged> exchange(Echo& echo, std::size_t count, std::size_t there, std::size_t back);
  Status measure_words(Echo& echo, MeasuredWay& way);
  /// Of one direction: bytes a second, and what a byte takes of the worker's CPU time.
  Status measure_bytes(Echo& echo, bool there, MeasuredWay& way);
  Error broken() const {
    return make_error(Code::kUnavailable, "the worker ended the measuring of the link")
        .within({Where::kPeer, options.address});
  }

  Status put(const std::filesystem::path& file, const std::string& sha256);
};

WorkerProbe::State::~State() {
  if (!beats.joinable()) return;
  std::unique_lock lock(mutex);
  leaving = true;
  wake.notify_all();
  // A worker that hangs does not answer the end of the session.
  if (!wake.wait_for(lock, 2 * kBeat, [this] { return left; })) session_context.TryCancel();
  lock.unlock();
  beats.join();
}

Status WorkerProbe::State::describe() {
  ::grpc::ClientContext context;
  prepare(context, kPatience);
  worker::DescribeResponse response;
  PENSTOCK_CHECK_OK(end(stub->Describe(&context, {}, &response)));
  if (response.protocol() != kWorkerProtocol) {
    return make_error(Code::kFailedPrecondition, "expected a worker that speaks version ",
                      kWorkerProtocol, " of the protocol, found version ", response.protocol(),
                      " (Penstock ", response.penstock(), "); install the same Penstock on both")
        .within({Where::kPeer, options.address});
  }
  description = read_description(response);
  if (const auto most = response.limits().message_bytes(); most > 0) {
    piece = std::min<std::size_t>(piece, most / 2);
  }
  return {};
}

Status WorkerProbe::State::open(const std::vector<std::string>& peers) {
  connection.introduce(session_context);
  stream = stub->Session(&session_context);
  worker::SessionRequest request;
  auto& asked = begin_part(request, &worker::SessionRequest::set_allocated_open);
  asked.set_protocol(kWorkerProtocol);
  asked.set_caller(concat("penstock ", version(), ", measuring"));
  asked.set_lease_ns(std::chrono::nanoseconds(kLease).count());
  for (const auto& peer : peers) asked.add_peers(peer);
  worker::SessionResponse response;
  if (!stream->Write(request) || !stream->Read(&response)) {
    const auto status = stream->Finish();
    if (status.ok()) return broken();
    return to_error(status, options.address);
  }
  session = response.session();
  return start_thread(beats, [this] {
    device::name_this_thread("worker beats");
    beat();
  });
}

void WorkerProbe::State::beat() {
  worker::SessionRequest request;
  worker::SessionResponse response;
  std::unique_lock lock(mutex);
  for (std::uint64_t number = 1; !leaving; ++number) {
    wake.wait_for(lock, kBeat, [this] { return leaving; });
    if (leaving) break;
    lock.unlock();
    begin_part(request, &worker::SessionRequest::set_allocated_beat).set_number(number);
    const bool alive = stream->Write(request) && stream->Read(&response);
    lock.lock();
    if (!alive) break;
  }
  lock.unlock();
  stream->WritesDone();
  while (stream->Read(&response)) {
  }
  stream->Finish();
  lock.lock();
  left = true;
  wake.notify_all();
}

Result<WorkerProbe::State::Exchanged> WorkerProbe::State::exchange(Echo& echo, std::size_t count,
                                                                   std::size_t there,
                                                                   std::size_t back) {
  worker::EchoRequest request;
  request.set_answer_bytes(back);
  request.mutable_payload()->assign(there, '\0');
  const auto begin = Clock::now();
  // Answers are read while requests are on their way: either side may wait for the other to read.
  bool written = true;
  std::thread writer;
  PENSTOCK_CHECK_OK(start_thread(writer, [&] {
    for (std::size_t i = 0; i < count && written; ++i) {
      request.set_number(i);
      written = echo.Write(request);
    }
  }));
  worker::EchoResponse response;
  std::size_t answers = 0;
  while (answers < count && echo.Read(&response)) ++answers;
  const double seconds = seconds_since(begin);
  writer.join();
  if (answers < count) return broken();
  const auto before = std::exchange(cpu_ns, response.cpu_ns());
  return Exchanged{seconds, static_cast<double>(cpu_ns - before) * 1e-9};
}

Status WorkerProbe::State::measure_words(Echo& echo, MeasuredWay& way) {
  PENSTOCK_CHECK_OK(exchange(echo, 1, 0, 0));  // What the worker did before is not counted.
  std::vector<double> seconds, cpu_seconds;
  for (int i = 0; i < kWords; ++i) {
    PENSTOCK_TRY(const auto exchanged, exchange(echo, 1, 0, 0));
    seconds.push_back(exchanged.seconds);
    cpu_seconds.push_back(exchanged.cpu_seconds);
  }
  way.latency_seconds = median(seconds) / 2;
  if (cpu_ns > 0) way.messages.emplace().message = median(cpu_seconds);
  return {};
}

Status WorkerProbe::State::measure_bytes(Echo& echo, bool there, MeasuredWay& way) {
  for (std::size_t count = kLeastPieces;; count *= 2) {
    PENSTOCK_TRY(const auto taken, exchange(echo, count, there ? piece : 0, there ? 0 : piece));
    if (taken.seconds < kEnoughSeconds && count < kMostPieces) continue;
    const double moving = std::max(taken.seconds - 2 * way.latency_seconds, taken.seconds / 10);
    const auto bytes = static_cast<double>(count * piece);
    (there ? way.there_bytes_per_second : way.back_bytes_per_second) = bytes / moving;
    if (!way.messages) return {};
    const double words = static_cast<double>(count) * way.messages->message;
    (there ? way.messages->byte_in : way.messages->byte_out) =
        std::max(taken.cpu_seconds - words, 0.0) / bytes;
    return {};
  }
}

Status WorkerProbe::State::put(const std::filesystem::path& file, const std::string& sha256) {
  ::grpc::ClientContext context;
  prepare(context, std::chrono::minutes(10));
  worker::PutContentResponse response;
  const auto writer = stub->PutContent(&context, &response);
  worker::PutContentRequest request;
  std::error_code error;
  auto& head = begin_part(request, &worker::PutContentRequest::set_allocated_head);
  head.set_session(session);
  head.set_sha256(sha256);
  head.set_bytes(std::filesystem::file_size(file, error));
  std::ifstream in(file, std::ios::binary);
  if (error || !in) return not_found("cannot be read").within({Where::kFile, file.string()});
  std::string bytes(std::min(piece, kPieceBytes), '\0');
  while (writer->Write(request)) {
    in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (in.gcount() == 0) break;
    request.set_piece(bytes.data(), static_cast<std::size_t>(in.gcount()));
  }
  writer->WritesDone();
  return end(writer->Finish());
}

WorkerProbe::WorkerProbe(std::unique_ptr<State> state) : state_(std::move(state)) {}
WorkerProbe::~WorkerProbe() = default;

Result<std::unique_ptr<WorkerProbe>> WorkerProbe::connect(PeerOptions options,
                                                          std::vector<std::string> peers) {
  PENSTOCK_CHECK_OK(check_may_start());
  auto state = std::make_unique<State>(std::move(options));
  PENSTOCK_TRY(state->connection, Connection::open(state->options));
  state->stub = worker::Worker::NewStub(state->connection.channel());
  PENSTOCK_CHECK_OK(state->describe());
  PENSTOCK_CHECK_OK(state->open(peers));
  return std::unique_ptr<WorkerProbe>(new WorkerProbe(std::move(state)));
}

const WorkerDescription& WorkerProbe::description() const {
  return state_->description;
}

Result<MeasuredWay> WorkerProbe::way() {
  ::grpc::ClientContext context;
  state_->prepare(context, kPatience);
  const auto echo = state_->stub->Echo(&context);
  const auto measure = [&]() -> Result<MeasuredWay> {
    MeasuredWay way;
    PENSTOCK_CHECK_OK(state_->measure_words(*echo, way));
    PENSTOCK_CHECK_OK(state_->measure_bytes(*echo, true, way));
    PENSTOCK_CHECK_OK(state_->measure_bytes(*echo, false, way));
    return way;
  };
  auto way = measure();
  echo->WritesDone();
  const auto status = echo->Finish();
  if (!way && !status.ok()) return to_error(status, state_->options.address);
  return way;
}

Result<MeasuredWay> WorkerProbe::way_to(const std::string& address) {
  ::grpc::ClientContext context;
  state_->prepare(context, kPatience);
  worker::MeasureLinkRequest request;
  request.set_session(state_->session);
  request.set_address(address);
  worker::MeasureLinkResponse response;
  PENSTOCK_CHECK_OK(state_->end(state_->stub->MeasureLink(&context, request, &response)));
  return MeasuredWay{response.latency_seconds(), response.there_bytes_per_second(),
                     response.back_bytes_per_second()};
}

namespace {

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  return std::chrono::round<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

/// A thread of its own, which whoever asks last waits for.
struct Moving {
  Moving() = default;
  Moving(const Moving&) = delete;
  Moving& operator=(const Moving&) = delete;
  ~Moving() {
    if (thread.joinable()) thread.join();
  }
  std::thread thread;
  std::shared_future<Result<double>> rate;
};

/// From now on. \error  of the rate: as start_thread()
WorkerProbe::Rate begin_moving(std::function<Result<double>()> move) {
  std::packaged_task<Result<double>()> task(std::move(move));
  const auto moving = std::make_shared<Moving>();
  moving->rate = task.get_future().share();
  Status started = start_thread(moving->thread, std::move(task));
  if (!started) return [error = std::move(started).error()] { return error; };
  return [moving] { return moving->rate.get(); };
}

}  // namespace

WorkerProbe::Rate WorkerProbe::moving(bool there, double seconds) {
  return begin_moving([this, there, seconds] {
    return move_bytes(state_->connection, state_->options.address, there, nanoseconds_of(seconds));
  });
}

WorkerProbe::Rate WorkerProbe::moving_to(const std::string& address, bool there, double seconds) {
  worker::MeasureLinkRequest request;
  request.set_session(state_->session);
  request.set_address(address);
  request.set_most_ns(nanoseconds_of(seconds).count());
  request.set_moving(there ? worker::MeasureLinkRequest::THERE : worker::MeasureLinkRequest::BACK);
  return begin_moving([this, request = std::move(request), there]() -> Result<double> {
    ::grpc::ClientContext context;
    state_->prepare(context, 2 * kPatience);
    worker::MeasureLinkResponse response;
    PENSTOCK_CHECK_OK(state_->end(state_->stub->MeasureLink(&context, request, &response)));
    if (response.latency_seconds() != 0) {  // It knows nothing of `moving`, and measured otherwise.
      return make_error(Code::kUnimplemented, "the worker at '", state_->options.address,
                        "' is of an earlier Penstock; install this one there");
    }
    return there ? response.there_bytes_per_second() : response.back_bytes_per_second();
  });
}

Result<MeasuredJob> WorkerProbe::measure(const std::string& job, const std::vector<File>& files,
                                         double silence_seconds,
                                         const std::function<bool()>& interrupted) {
  worker::MeasureRequest request;
  request.set_session(state_->session);
  request.set_job(job);
  request.set_silence_ns(static_cast<std::int64_t>(silence_seconds * 1e9));
  worker::MissingContentsRequest asked;
  asked.set_session(state_->session);
  for (const auto& [path, file] : files) {
    PENSTOCK_TRY(auto sha256, sha256_of_file(file));
    auto& entry = *request.add_files();
    entry.set_path(path);
    entry.set_sha256(sha256);
    asked.add_sha256(std::move(sha256));
  }
  worker::MissingContentsResponse missing;
  {
    ::grpc::ClientContext context;
    state_->prepare(context, kPatience);
    PENSTOCK_CHECK_OK(state_->end(state_->stub->MissingContents(&context, asked, &missing)));
  }
  for (const auto& sha256 : missing.sha256()) {
    const auto entry = std::ranges::find(asked.sha256(), sha256);
    if (entry == asked.sha256().end()) continue;
    const auto at = static_cast<std::size_t>(entry - asked.sha256().begin());
    PENSTOCK_CHECK_OK(state_->put(files[at].file, sha256));
  }

  ::grpc::ClientContext context;
  state_->connection.introduce(context);
  worker::MeasureResponse response;
  std::mutex mutex;
  std::condition_variable wake;
  std::optional<::grpc::Status> ended;
  state_->stub->async()->Measure(&context, &request, &response, [&](const ::grpc::Status& status) {
    const std::lock_guard lock(mutex);
    ended = status;
    wake.notify_all();
  });
  std::unique_lock lock(mutex);
  while (!wake.wait_for(lock, milliseconds(100), [&] { return ended.has_value(); })) {
    if (interrupted && interrupted()) context.TryCancel();
  }
  PENSTOCK_CHECK_OK(state_->end(*ended));
  return MeasuredJob{response.report(), response.died(), response.why()};
}

}  // namespace penstock::grpc
