// Hands checked certificates to gRPC's handshakes, and looks for new ones as clients come.
//
// gRPC's own watcher of files takes them unchecked: it ends the process where one is empty, and
// refuses all clients where one cannot be used.
#include "penstock/grpc/server_certificates.h"

#include <chrono>
#include <mutex>
#include <utility>

#include <grpc/grpc_security.h>

namespace penstock::grpc {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kBetweenLooks = std::chrono::seconds(1);

class ServerCertificates final : public ::grpc::ServerCredentials {
 public:
  ServerCertificates(NewCertificates certificates, TlsTexts first,
                     std::function<void(const std::string&)> say)
      : certificates_(std::move(certificates)), say_(std::move(say)), next_(std::move(first)) {
    const auto request = next_->client_authority.empty()
                             ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                             : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY;
    credentials_ = grpc_ssl_server_credentials_create_with_options(
        grpc_ssl_server_credentials_create_options_using_config_fetcher(request, fetch, this));
  }
  ServerCertificates(const ServerCertificates&) = delete;
  ServerCertificates& operator=(const ServerCertificates&) = delete;
  ~ServerCertificates() override { grpc_server_credentials_release(credentials_); }

  /// Tokens are looked at by each call.
  void SetAuthMetadataProcessor(
      const std::shared_ptr<::grpc::AuthMetadataProcessor>& /*processor*/) override {}

 private:
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  static grpc_ssl_certificate_config_reload_status fetch(
      void* certificates, grpc_ssl_server_certificate_config** config) noexcept {
    try {
      return static_cast<ServerCertificates*>(certificates)->give(config);
    } catch (...) {  // There is no memory: gRPC goes on with those that it has.
      return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_FAIL;
    }
  }

  grpc_ssl_certificate_config_reload_status give(grpc_ssl_server_certificate_config** config) {
    const std::scoped_lock lock(mutex_);
    look();
    if (!next_) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const auto texts = *std::exchange(next_, std::nullopt);
    const grpc_ssl_pem_key_cert_pair pair{texts.key.c_str(), texts.certificate.c_str()};
    // gRPC 1.51 wants an authority even where it asks clients for no certificate.
    const auto& asked = texts.client_authority;
    const auto& authority = asked.empty() ? texts.certificate : asked;
    *config = grpc_ssl_server_certificate_config_create(authority.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }

  void look() {
    const auto now = Clock::now();
    if (next_ || now - looked_ < kBetweenLooks) return;
    looked_ = now;
    auto found = certificates_();
    if (!found) {
      tell("the certificates read before still hold: " + found.error().message());
    } else if (*found) {
      next_ = **std::move(found);
      tell("certificates read again");
    }
  }

  void tell(const std::string& what) const {
    if (say_) say_("gRPC: " + what);
  }

  grpc_server_credentials* credentials_ = nullptr;
  std::mutex mutex_;  // Guards what follows.
  NewCertificates certificates_;
  std::function<void(const std::string&)> say_;
  std::optional<TlsTexts> next_;  ///< For the next client; nullopt: those that gRPC has.
  Clock::time_point looked_ = Clock::now();
};

}  // namespace

Result<std::shared_ptr<::grpc::ServerCredentials>> credentials_of(
    NewCertificates certificates, std::function<void(const std::string&)> say) {
  PENSTOCK_TRY(auto first, certificates());
  return std::shared_ptr<::grpc::ServerCredentials>(std::make_shared<ServerCertificates>(
      std::move(certificates), *std::move(first), std::move(say)));
}

}  // namespace penstock::grpc
