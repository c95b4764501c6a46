// TLS for the server: a context made of certificates, made again when their files change.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include <boost/asio/ssl/context.hpp>
#include <boost/system/error_code.hpp>

#include "penstock/base/result.h"
#include "penstock/base/tls_files.h"

namespace penstock::http {

struct TlsContext {
  boost::asio::ssl::context context{boost::asio::ssl::context::tls_server};
};

/// TLS 1.2 or newer, of what the files hold.
/// \error kInvalidArgument  a file cannot be used: names it.
Result<std::shared_ptr<TlsContext>> make_tls(const TlsFiles& files, const TlsTexts& texts);

/// Whether a handshake failed as the client spoke HTTP without TLS.
bool is_plain_http(const boost::system::error_code& failed);

/// The common name in the client's certificate, or the first name of its alternative ones where it
/// has none. Empty: no certificate, or none that was verified.
std::string certificate_name(SSL* connection);

}  // namespace penstock::http
