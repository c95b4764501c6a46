// Certificates of the gRPC server, which may change while it runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <grpcpp/security/server_credentials.h>

#include "penstock/base/result.h"
#include "penstock/base/tls_files.h"

namespace penstock::grpc {

/// Checked certificates, where they have changed since the last call; nullopt: they have not. The
/// first call gives them. An error leaves those that were given before in use. One thread at a
/// time.
using NewCertificates = std::function<Result<std::optional<TlsTexts>>()>;

/// Credentials that look for new certificates when a client connects, once a second at most. Where
/// they are given an authority of clients, each client must show a certificate that it signed.
/// `say` is told of new ones and of errors; null: nobody. \error that of the first call
Result<std::shared_ptr<::grpc::ServerCredentials>> credentials_of(
    NewCertificates certificates, std::function<void(const std::string&)> say);

}  // namespace penstock::grpc
