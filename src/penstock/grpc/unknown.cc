// Ends each call at once, with the services that there are.
#include "penstock/grpc/unknown.h"

#include <string>

#include "penstock/base/error.h"
#include "penstock/base/printable.h"
#include "penstock/grpc/health.grpc.pb.h"
#include "penstock/grpc/inference.grpc.pb.h"
#include "penstock/grpc/worker.grpc.pb.h"

namespace penstock::grpc {
namespace {

/// Reads and writes nothing.
class Refusal final : public ::grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const std::string& sentence) {
    Finish({::grpc::StatusCode::UNIMPLEMENTED, sentence});
  }
  void OnDone() override { delete this; }
};

}  // namespace

::grpc::ServerGenericBidiReactor* Unknown::CreateReactor(
    ::grpc::GenericCallbackServerContext* context) {
  constexpr std::size_t kMost = 200;  // Of what a stranger sent.
  const auto inference = inference::GRPCInferenceService::service_full_name();
  const auto health = ::grpc::health::v1::Health::service_full_name();
  const auto worker = penstock::worker::Worker::service_full_name();
  const std::string has = worker_ ? concat("'", inference, "', '", worker, "' and '", health, "'")
                                  : concat("'", inference, "' and '", health, "'");
  // It deletes itself.
  return new Refusal(concat("unknown method '", printable(context->method().substr(0, kMost)),
                            "': this server has the services ", has));
}

}  // namespace penstock::grpc
