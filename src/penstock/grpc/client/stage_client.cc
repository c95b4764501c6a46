// Sends the files that the worker lacks, opens the stage there, and reconnects after a loss.
#include "penstock/grpc/client/stage_client.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <fstream>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>

#include <grpcpp/completion_queue.h>

#include "penstock/base/hash.h"
#include "penstock/base/thread.h"
#include "penstock/device/affinity.h"
#include "penstock/grpc/client/answer.h"
#include "penstock/grpc/client/client_stream.h"
#include "penstock/grpc/client/held_source.h"
#include "penstock/grpc/client/line.h"
#include "penstock/grpc/client/may_start.h"
#include "penstock/grpc/client/oneof.h"
#include "penstock/grpc/client/peer.h"
#include "penstock/grpc/client/question.h"
#include "penstock/grpc/client/session.h"
#include "penstock/grpc/client/worker_messages.h"
#include "penstock/grpc/client/worker_protocol.h"
#include "penstock/grpc/worker.grpc.pb.h"

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;
using WorkerStub = worker::Worker::Stub;

constexpr auto kSends = std::chrono::minutes(30);  // A content.
constexpr auto kCompiles = std::chrono::minutes(10);

/// A file of the stage: where it lies in the worker's folder, and what is in it.
struct Content {
  std::string path, sha256;
  std::filesystem::path file;  ///< Or else
  const std::string* bytes = nullptr;
};

Result<std::vector<ModelPort>> read_ports(
    const google::protobuf::RepeatedPtrField<worker::Port>& messages) {
  std::vector<ModelPort> ports;
  for (const auto& message : messages) {
    PENSTOCK_TRY(auto type, read(message.type()));
    ports.push_back({message.name(), std::move(type)});
  }
  return ports;
}

Error unreadable(const Content& content) {
  return make_error(Code::kFailedPrecondition, "the worker lacks '", content.file.string(),
                    "', which cannot be read any more: load the package again");
}

/// The stream of pieces. Where nobody takes them any more, the call's status says why.
/// \error kFailedPrecondition  the file is gone, or shorter than it was
Status send_pieces(const Content& content, const std::string& session,
                   ::grpc::ClientWriter<worker::PutContentRequest>& writer) {
  worker::PutContentRequest request;
  auto& head = begin_part(request, &worker::PutContentRequest::set_allocated_head);
  head.set_session(session);
  head.set_sha256(content.sha256);
  const bool in_memory = content.bytes != nullptr;
  std::error_code failed;
  head.set_bytes(in_memory ? content.bytes->size()
                           : std::filesystem::file_size(content.file, failed));
  if (failed) return unreadable(content);
  if (!writer.Write(request)) return {};
  std::ifstream stream(content.file, std::ios::binary);
  for (std::size_t at = 0; at < head.bytes(); at += kPieceBytes) {
    worker::PutContentRequest next;
    auto& piece = *next.mutable_piece();
    const std::size_t size = std::min<std::size_t>(kPieceBytes, head.bytes() - at);
    if (in_memory) {
      piece = content.bytes->substr(at, size);
    } else {
      piece.resize(size);
      if (!stream.read(piece.data(), static_cast<std::streamsize>(size)))
        return unreadable(content);
    }
    if (!writer.Write(next)) return {};
  }
  writer.WritesDone();
  return {};
}

class StageClient final : public RemoteModel {
 public:
  StageClient(PeerOptions options, StageRequest request)
      : options_(std::move(options)),
        request_(std::move(request)),
        source_(std::make_shared<HeldSource>(options_.address, options_.patience)) {
    for (const auto& peer : request_.peers) {
      if (peer != options_.address) peers_.push_back(peer);
    }
  }
  ~StageClient() override;

  Status start();
  Status open_first();

  [[nodiscard]] const ModelInterface& model() const override { return interface_; }
  [[nodiscard]] int recommended_calls() const override { return calls_; }
  [[nodiscard]] bool holds_values() const override { return true; }
  [[nodiscard]] bool is_lost() const override {
    if (lost_.load(std::memory_order_acquire)) return true;
    const std::scoped_lock lock(mutex_);
    return link_.line == nullptr || link_.line->is_broken();
  }
  [[nodiscard]] std::string why_lost() const override {
    const std::scoped_lock lock(mutex_);
    return loss_ ? loss_->reason : "";
  }
  Result<std::shared_ptr<InferCall>> infer(std::span<const Tensor* const> inputs,
                                           const InferOptions& options) override;

 private:
  /// All that goes with one connection.
  struct Link {
    std::unique_ptr<Session> session;
    std::shared_ptr<Line> line;
    std::optional<Connection> connection;
    bool same_session = false;  ///< As before.
  };

  Status find_contents();
  Result<Link> open();  ///< Takes the session up, or begins another.
  Status fill(Link& link, const Connection& connection, const std::shared_ptr<PeerClock>& clock);
  Status give_stage(const Connection& to, const std::string& session);
  Status send_contents(const Connection& to, const std::string& session);
  Status read_stage(const worker::OpenStageResponse& response);
  void take(Link link);
  void keep();
  void watch_once(std::unique_lock<std::mutex>& lock);
  void try_again(std::unique_lock<std::mutex>& lock);
  [[nodiscard]] Error at_peer(Error error) const {
    return std::move(error).within({Where::kPeer, options_.address});
  }

  const PeerOptions options_;
  const StageRequest request_;
  const std::shared_ptr<HeldSource> source_;
  std::vector<std::string> peers_;
  std::vector<Content> files_, custom_ops_;
  ModelInterface interface_;
  int calls_ = 1;
  bool opened_ = false;  // The interface is known.
  std::string session_;  // Of the keeper's thread, as is
  std::uint64_t stage_ = 0;
  ::grpc::CompletionQueue queue_;
  Question question_;

  mutable std::mutex mutex_;  // Guards all below but `lost_`.
  std::condition_variable changed_;
  Link link_;
  bool ends_ = false;
  std::optional<Error> loss_;
  Clock::duration pause_ = kFirstTry;
  Clock::time_point next_try_;
  std::atomic<bool> lost_{false};  // loss_.has_value()
  std::atomic<std::uint64_t> stage_of_line_{0};
  std::thread dispatcher_, keeper_;
};

StageClient::~StageClient() {
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
  }
  question_.break_off();
  changed_.notify_all();
  if (keeper_.joinable()) keeper_.join();
  if (link_.line != nullptr) {
    link_.line->break_off(make_error(Code::kCancelled, "the stage is closed"));
    link_.line->wait_until_over();
  }
  if (link_.session != nullptr) link_.session->close();
  queue_.Shutdown();
  if (dispatcher_.joinable()) dispatcher_.join();
}

Status StageClient::find_contents() {
  if (request_.model.empty()) {
    files_.push_back({"model.onnx", sha256_of(request_.bytes), {}, &request_.bytes});
  } else {
    std::vector<std::string> paths = {request_.model.filename().string()};
    paths.insert(paths.end(), request_.data.begin(), request_.data.end());
    for (auto& path : paths) {
      const auto file = request_.model.parent_path() / path;
      PENSTOCK_TRY(auto hash, sha256_of_file(file));
      files_.push_back({std::move(path), std::move(hash), file});
    }
  }
  for (const auto& file : request_.custom_ops) {
    PENSTOCK_TRY(auto hash, sha256_of_file(file));
    custom_ops_.push_back({file.filename().string(), std::move(hash), file});
  }
  return {};
}

Status StageClient::send_contents(const Connection& to, const std::string& session) {
  worker::MissingContentsRequest asked;
  asked.set_session(session);
  for (const auto* list : {&files_, &custom_ops_}) {
    for (const auto& content : *list) asked.add_sha256(content.sha256);
  }
  worker::MissingContentsResponse missing;
  const auto status = question_.run(to, kConnects, [&](auto& context) {
    return WorkerStub(to.channel()).MissingContents(&context, asked, &missing);
  });
  if (!status.ok()) return to_error(status, options_.address);
  for (const auto& sha256 : missing.sha256()) {
    for (const auto* list : {&files_, &custom_ops_}) {
      const auto content = std::ranges::find(*list, sha256, &Content::sha256);
      if (content == list->end()) continue;
      Status sent;
      const auto put = question_.run(to, kSends, [&](auto& context) {
        worker::PutContentResponse response;
        const auto writer = WorkerStub(to.channel()).PutContent(&context, &response);
        sent = send_pieces(*content, session, *writer);
        if (!sent) context.TryCancel();  // Else the worker waits for the rest, and this for it.
        return writer->Finish();
      });
      if (!sent) return at_peer(std::move(sent).error().within({Where::kFile, content->path}));
      if (!put.ok()) {
        return to_error(put, options_.address).within({Where::kFile, content->path});
      }
      break;
    }
  }
  return {};
}

Status StageClient::give_stage(const Connection& to, const std::string& session) {
  PENSTOCK_CHECK_OK(send_contents(to, session));
  worker::OpenStageRequest asked;
  asked.set_session(session);
  asked.set_name(request_.name);
  for (const auto& content : files_) {
    auto& file = *asked.add_files();
    file.set_path(content.path);
    file.set_sha256(content.sha256);
  }
  for (const auto& content : custom_ops_) {
    auto& file = *asked.add_custom_ops();
    file.set_path(content.path);
    file.set_sha256(content.sha256);
  }
  asked.set_backend(request_.backend);
  asked.set_device(request_.device);
  asked.mutable_options()->insert(request_.options.begin(), request_.options.end());
  asked.set_flush_denormals(request_.flush_denormals);
  asked.set_pinned(true);
  worker::OpenStageResponse response;
  const auto status = question_.run(to, kCompiles, [&](auto& context) {
    return WorkerStub(to.channel()).OpenStage(&context, asked, &response);
  });
  if (!status.ok()) return to_error(status, options_.address);
  return read_stage(response);
}

/// What comes back must be what was lost.
Status StageClient::read_stage(const worker::OpenStageResponse& response) {
  auto inputs = read_ports(response.inputs());
  if (!inputs) return at_peer(std::move(inputs).error());
  auto outputs = read_ports(response.outputs());
  if (!outputs) return at_peer(std::move(outputs).error());
  if (!opened_) {
    interface_ = {*std::move(inputs), *std::move(outputs)};
    calls_ = std::max(static_cast<int>(response.recommended_calls()), 1);
    opened_ = true;
  } else if (*inputs != interface_.inputs || *outputs != interface_.outputs) {
    return at_peer(make_error(Code::kFailedPrecondition,
                              "compiled the stage with other inputs and outputs than before"));
  }
  stage_ = response.stage();
  return {};
}

Result<StageClient::Link> StageClient::open() {
  PENSTOCK_TRY(const auto connection, Connection::open(options_));
  PENSTOCK_TRY(const auto aside, Connection::open(options_));  // Beats do not wait behind frames.
  Link link;
  const auto clock = std::make_shared<PeerClock>();
  auto session = Session::open(aside, options_, {session_, source_->tickets(), peers_, clock});
  const bool gone = !session && !session_.empty() && session.error().code == Code::kNotFound;
  if (gone) session = Session::open(aside, options_, {"", {}, peers_, clock});
  if (!session) return std::move(session).error();
  link.session = *std::move(session);
  link.same_session = link.session->id() == session_;
  Status filled = fill(link, connection, clock);
  if (filled) return link;
  // Nobody takes it up again: else it would stay there for its lease.
  if (!link.same_session) link.session->close();
  return std::move(filled).error();
}

/// \pre  it has a session
Status StageClient::fill(Link& link, const Connection& connection,
                         const std::shared_ptr<PeerClock>& clock) {
  const std::string& session = link.session->id();
  if (!link.same_session) PENSTOCK_CHECK_OK(give_stage(connection, session));
  PENSTOCK_TRY(link.line,
               Line::open(connection, {options_.address, session, source_, clock}, queue_));
  link.connection = connection;
  session_ = session;
  return {};
}

Status StageClient::start() {
  PENSTOCK_CHECK_OK(find_contents());
  std::promise<Status> opened;
  auto outcome = opened.get_future();
  // gRPC's own threads take the name of the one that makes them.
  PENSTOCK_CHECK_OK(start_thread(keeper_, [this, &opened] {
    device::name_this_thread("oip");
    Status made = open_first();
    const bool goes_on = static_cast<bool>(made);
    opened.set_value(std::move(made));
    if (goes_on) keep();
  }));
  return outcome.get();
}

Status StageClient::open_first() {
  PENSTOCK_CHECK_OK(start_thread(dispatcher_, [this] { dispatch_events(queue_); }));
  PENSTOCK_TRY(auto link, open());
  calls_ = std::min(calls_, link.line->most_calls());
  take(std::move(link));
  return {};
}

void StageClient::take(Link link) {
  link_ = std::move(link);
  stage_of_line_ = stage_;
  source_->connected(*link_.connection, link_.line, link_.same_session);
}

void StageClient::keep() {
  std::unique_lock lock(mutex_);
  while (!ends_) loss_ ? try_again(lock) : watch_once(lock);
}

/// The session hears of the worker, the line of its own end.
void StageClient::watch_once(std::unique_lock<std::mutex>& lock) {
  const auto often = std::min<Clock::duration>(options_.patience / 10, kFirstTry);
  changed_.wait_for(lock, often, [&] { return ends_; });
  if (ends_) return;
  auto why = link_.line->broken();
  if (!why) why = link_.session->silence(link_.line->heard_ns());
  if (!why) return;
  why->code = Code::kUnavailable;
  loss_ = at_peer(*std::move(why));
  lost_.store(true, std::memory_order_release);
  pause_ = kFirstTry;
  next_try_ = Clock::now() + pause_;
  Link broken = std::exchange(link_, {});
  const Error loss = *loss_;
  lock.unlock();
  source_->lost();
  broken.line->break_off(loss);
  broken.session->break_off();
  broken.line->wait_until_over();
  broken = {};
  lock.lock();
}

void StageClient::try_again(std::unique_lock<std::mutex>& lock) {
  if (changed_.wait_until(lock, next_try_, [&] { return ends_; })) return;
  lock.unlock();
  auto link = open();
  lock.lock();
  if (link) {
    take(*std::move(link));
    loss_.reset();
    lost_.store(false, std::memory_order_release);
    return;
  }
  if (says_why(link.error())) loss_->reason = link.error().reason;
  pause_ = std::min<Clock::duration>(pause_ * 2, kLongestTry);
  next_try_ = Clock::now() + pause_;
}

Result<std::shared_ptr<InferCall>> StageClient::infer(std::span<const Tensor* const> inputs,
                                                      const InferOptions& options) {
  std::shared_ptr<Line> line;
  {
    const std::scoped_lock lock(mutex_);
    if (loss_) return *loss_;
    line = link_.line;
  }
  return line->call(stage_of_line_, inputs, interface_.outputs, options);
}

}  // namespace

Result<std::unique_ptr<RemoteModel>> open_stage(PeerOptions options, StageRequest request) {
  PENSTOCK_CHECK_OK(check_may_start());
  auto client = std::make_unique<StageClient>(std::move(options), std::move(request));
  PENSTOCK_CHECK_OK(client->start());
  return std::unique_ptr<RemoteModel>(std::move(client));
}

}  // namespace penstock::grpc
