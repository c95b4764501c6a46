// Reads a call's token, certificate name, address and deadline from gRPC's context.
#include "penstock/grpc/caller.h"

#include <string_view>

namespace penstock::grpc {
namespace {

bool is_of_this_machine(std::string_view peer) {
  return peer.starts_with("unix:") || peer.starts_with("ipv4:127.") ||
         peer.starts_with("ipv6:[::1]") || peer.starts_with("ipv6:%5B::1%5D");
}

std::string certificate_name(const ::grpc::CallbackServerContext& context) {
  const auto authenticated = context.auth_context();
  if (authenticated == nullptr || !authenticated->IsPeerAuthenticated()) return {};
  const auto names = authenticated->FindPropertyValues("x509_common_name");
  return names.empty() ? std::string() : std::string(names.front().data(), names.front().size());
}

}  // namespace

Result<std::string> check_caller(const serve::Access& access, serve::Right right,
                                 const ::grpc::CallbackServerContext& context) {
  if (const auto found = context.client_metadata().count("authorization"); found > 1) {
    return make_error(Code::kUnauthenticated,
                      "expected one 'authorization' of the metadata, found ", found);
  }
  serve::Credentials credentials;
  credentials.token = serve::bearer_token(header_of(context, "authorization"));
  credentials.certificate_name = certificate_name(context);
  credentials.local = is_of_this_machine(context.peer());
  return access.check(right, credentials);
}

Result<std::string> StreamRight::check() {
  const auto generation = access_.generation();
  if (!name_ || generation != generation_) {
    PENSTOCK_TRY(name_, check_caller(access_, right_, context_));
    generation_ = generation;
  }
  return *name_;
}

std::optional<std::chrono::steady_clock::time_point> deadline_of(
    const ::grpc::CallbackServerContext& context) {
  using System = std::chrono::system_clock;
  constexpr auto kLongest = std::chrono::hours(24 * 365);
  const auto left = context.deadline() - System::now();
  if (left > kLongest) return std::nullopt;
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(left);
}

std::string header_of(const ::grpc::CallbackServerContext& context, const std::string& name) {
  const auto found = context.client_metadata().find(name);
  if (found == context.client_metadata().end()) return {};
  return {found->second.data(), found->second.size()};
}

}  // namespace penstock::grpc
