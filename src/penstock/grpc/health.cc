// Check answers at once; for Watch, a thread looks at the models and tells clients of changes.
#include "penstock/grpc/health.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "penstock/base/thread.h"

namespace penstock::grpc {
namespace {

/// Between looks at what is served, while somebody watches.
constexpr auto kLook = std::chrono::milliseconds(100);

}  // namespace

/// Lives until gRPC is done with the call.
class Health::Watcher final : public ::grpc::ServerWriteReactor<Response> {
 public:
  static std::shared_ptr<Watcher> make(std::string service) {
    std::shared_ptr<Watcher> made(new Watcher(std::move(service)));
    made->self_ = made;
    return made;
  }

  [[nodiscard]] const std::string& service() const { return service_; }

  /// Tells the client, unless it knows.
  void tell(Response::ServingStatus status) {
    {
      const std::scoped_lock lock(mutex_);
      if (ended_ || writing_ || told_ == status) return;
      told_ = status;
      writing_ = true;
      response_.set_status(status);
    }
    StartWrite(&response_);
  }

  void end(::grpc::Status status) {
    {
      const std::scoped_lock lock(mutex_);
      if (std::exchange(ended_, true)) return;
      end_ = std::move(status);
      if (writing_) return;
    }
    Finish(end_);
  }

  void OnWriteDone(bool ok) override {
    {
      const std::scoped_lock lock(mutex_);
      writing_ = false;
      if (!ok && !std::exchange(ended_, true)) {
        end_ = ::grpc::Status(::grpc::StatusCode::CANCELLED, "a write failed");
      }
      if (!ended_) return;
    }
    Finish(end_);
  }
  void OnCancel() override { end(::grpc::Status::CANCELLED); }
  void OnDone() override { self_.reset(); }

 private:
  explicit Watcher(std::string service) : service_(std::move(service)) {}

  const std::string service_;
  std::shared_ptr<Watcher> self_;  // Until OnDone().
  Response response_;              // While it is written.
  std::mutex mutex_;               // Guards all below.
  std::optional<Response::ServingStatus> told_;
  bool writing_ = false;
  bool ended_ = false;
  ::grpc::Status end_;
};

Status Health::start() {
  return start_thread(thread_, [this] { loop(); });
}

void Health::stop() {
  std::vector<std::weak_ptr<Watcher>> watchers;
  {
    const std::scoped_lock lock(mutex_);
    ends_ = true;
    watchers = watchers_;
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  for (const auto& watcher : watchers) {
    const auto watching = watcher.lock();
    if (watching == nullptr) continue;
    watching->tell(Response::NOT_SERVING);
    watching->end(::grpc::Status::OK);
  }
}

bool Health::all_gone() {
  const std::scoped_lock lock(mutex_);
  return std::ranges::all_of(watchers_, [](const auto& watcher) { return watcher.expired(); });
}

Health::Response::ServingStatus Health::status_of(const std::string& service) const {
  const auto serving = [](bool ready) { return ready ? Response::SERVING : Response::NOT_SERVING; };
  if (service.empty() || service == "inference.GRPCInferenceService" ||
      service == "grpc.health.v1.Health") {
    return serving(server_.ready());
  }
  const auto ready = server_.model_ready(service, "");
  if (ready) return serving(*ready);
  return ready.error().code == Code::kNotFound ? Response::SERVICE_UNKNOWN : Response::NOT_SERVING;
}

::grpc::ServerUnaryReactor* Health::Check(::grpc::CallbackServerContext* context,
                                          const Request* request, Response* response) {
  auto* reactor = context->DefaultReactor();
  const auto status = status_of(request->service());
  response->set_status(status);
  reactor->Finish(status == Response::SERVICE_UNKNOWN
                      ? ::grpc::Status(::grpc::StatusCode::NOT_FOUND, "unknown service")
                      : ::grpc::Status::OK);
  return reactor;
}

::grpc::ServerWriteReactor<Health::Response>* Health::Watch(
    ::grpc::CallbackServerContext* /*context*/, const Request* request) {
  const auto watcher = Watcher::make(request->service());
  bool ends = false;
  {
    const std::scoped_lock lock(mutex_);
    ends = ends_;
    if (!ends) watchers_.push_back(watcher);
    changed_.notify_one();
  }
  if (ends)
    watcher->end(::grpc::Status(::grpc::StatusCode::UNAVAILABLE, "the server is shutting down"));
  return watcher.get();
}

void Health::loop() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    std::erase_if(watchers_, [](const auto& watcher) { return watcher.expired(); });
    const auto watchers = watchers_;
    lock.unlock();
    for (const auto& watcher : watchers) {
      if (const auto watching = watcher.lock()) watching->tell(status_of(watching->service()));
    }
    lock.lock();
    if (watchers_.empty()) {
      changed_.wait(lock, [&] { return ends_ || !watchers_.empty(); });
    } else {
      changed_.wait_for(lock, kLook);
    }
  }
}

}  // namespace penstock::grpc
