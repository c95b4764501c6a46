// The standard health service: of the server, and of each model by its name.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "penstock/base/result.h"
#include "penstock/grpc/health.grpc.pb.h"
#include "penstock/serve/server.h"

namespace penstock::grpc {

/// Needs no right: what asks for it often has none to show.
class Health final : public ::grpc::health::v1::Health::CallbackService {
 public:
  using Request = ::grpc::health::v1::HealthCheckRequest;
  using Response = ::grpc::health::v1::HealthCheckResponse;

  explicit Health(serve::Server& server) : server_(server) {}
  Health(const Health&) = delete;
  Health& operator=(const Health&) = delete;
  ~Health() override { stop(); }

  /// \error kResourceExhausted  the system has no thread left.
  Status start();
  /// Tells those who watch that nothing is served any more, and ends their calls.
  void stop();
  /// After stop(): whether each of them has heard so.
  [[nodiscard]] bool all_gone();

  ::grpc::ServerUnaryReactor* Check(::grpc::CallbackServerContext* context, const Request* request,
                                    Response* response) override;
  ::grpc::ServerWriteReactor<Response>* Watch(::grpc::CallbackServerContext* context,
                                              const Request* request) override;

 private:
  class Watcher;
  void loop();
  [[nodiscard]] Response::ServingStatus status_of(const std::string& service) const;

  serve::Server& server_;
  std::mutex mutex_;  // Guards all below but the thread.
  std::condition_variable changed_;
  std::vector<std::weak_ptr<Watcher>> watchers_;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace penstock::grpc
