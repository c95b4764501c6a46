// Collects peer, client, model, sizes, status and duration of a call, and writes them at its end.
#include "penstock/grpc/call_log.h"

#include <new>
#include <string_view>

namespace penstock::grpc {
namespace {

/// gRPC says "ipv4:10.0.0.7:43210"; all protocols' lines have the address alone.
std::string address_of(std::string_view peer) {
  for (const std::string_view family : {"ipv4:", "ipv6:"}) {
    if (peer.starts_with(family)) return std::string(peer.substr(family.size()));
  }
  return std::string(peer);
}

}  // namespace

CallLog::CallLog(serve::AccessLog* log, const ::grpc::CallbackServerContext& context,
                 const char* kind, const char* method, const char* service)
    : log_(log) {
  if (log_ == nullptr) return;
  begin_ = std::chrono::steady_clock::now();
  entry_.emplace();
  entry_->protocol = "grpc";
  entry_->peer = address_of(context.peer());
  entry_->method = kind;
  entry_->target = std::string("/") + service + '/' + method;
}

void CallLog::client(const std::string& name) {
  if (entry_) entry_->client = name;
}

void CallLog::received(std::size_t bytes) {
  if (entry_) entry_->request_bytes = bytes;
}

void CallLog::asks(const serve::Request& request) {
  note("model", request.model);
  note("id", request.id);
  note("traceparent", request.traceparent);
}

void CallLog::note(const char* what, const std::string& text) {
  if (entry_ && !text.empty()) entry_->notes[what] = text;
}

void CallLog::end(const ::grpc::Status& status, std::size_t bytes) {
  if (!entry_) return;
  entry_->status = status.error_code();
  entry_->response_bytes = bytes;
  entry_->duration = std::chrono::steady_clock::now() - begin_;
  try {
    if (!status.ok()) entry_->notes["error"] = status.error_message();
    log_->write(*entry_);
  } catch (const std::bad_alloc&) {  // Without memory there is no line, but an end of the call.
  }
  entry_.reset();
}

}  // namespace penstock::grpc
