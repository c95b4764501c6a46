// Loads certificates with OpenSSL for TLS 1.2 or later; reads the name in a client's certificate.
#include "penstock/http/tls.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "penstock/http/tls_check.h"

namespace penstock::http {
namespace {

namespace ssl = boost::asio::ssl;

constexpr std::string_view kCertificate = "CERTIFICATE-----";

Error unusable(const std::filesystem::path& file, std::string_view what, std::string_view why) {
  return invalid_argument("cannot be used as ", what, " (", why, ")")
      .within({Where::kFile, file.string()});
}

Error unusable(const std::filesystem::path& file, std::string_view what,
               const boost::system::error_code& failed) {
  return unusable(file, what, failed.message());
}

/// What OpenSSL says in codes of its own, or takes and gRPC does not.
Status check_pem(const std::filesystem::path& file, std::string_view what, std::string_view label) {
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) return unusable(file, what, "it is a folder");
  std::ifstream in(file, std::ios::binary);
  if (!in) return unusable(file, what, std::generic_category().message(errno));
  const std::string text(std::istreambuf_iterator<char>(in), {});
  if (text.empty()) return unusable(file, what, "it is empty");
  if (text.find("-----BEGIN TRUSTED CERTIFICATE-----") != text.npos) {
    return unusable(file, what,
                    "it is a trusted certificate, a form of OpenSSL's own: write it anew with "
                    "openssl x509 -in FILE -out NEW");
  }
  if (text.find(label) != text.npos) return {};
  return unusable(file, what, concat("it has no line '-----BEGIN ...", label, "'"));
}

/// Nobody is there to be asked for a pass phrase.
Status use_key(ssl::context& context, const std::filesystem::path& file) {
  constexpr std::string_view kWhat = "the certificate's key in PEM";
  PENSTOCK_CHECK_OK(check_pem(file, kWhat, "PRIVATE KEY-----"));
  boost::system::error_code failed;
  const auto asked = std::make_shared<bool>(false);
  context.set_password_callback(
      [asked](std::size_t, ssl::context::password_purpose) {
        *asked = true;
        return std::string();
      },
      failed);
  if (!failed) context.use_private_key_file(file.string(), ssl::context::pem, failed);
  if (!failed) return {};
  if (!*asked) return unusable(file, kWhat, failed);
  return unusable(file, kWhat,
                  "it is locked by a pass phrase: write it without one with openssl pkey -in FILE "
                  "-out NEW, for the server's user alone to read");
}

Status use_authority(ssl::context& context, const std::filesystem::path& file,
                     std::string_view what) {
  PENSTOCK_CHECK_OK(check_pem(file, what, kCertificate));
  boost::system::error_code failed;
  context.load_verify_file(file.string(), failed);
  return failed ? unusable(file, what, failed) : Status();
}

std::string text_of(const ASN1_STRING* text) {
  unsigned char* utf8 = nullptr;
  const int size = ASN1_STRING_to_UTF8(&utf8, text);
  if (size < 0) return {};
  std::string copy(reinterpret_cast<const char*>(utf8), static_cast<std::size_t>(size));
  OPENSSL_free(utf8);
  return copy;
}

std::string common_name(X509* certificate) {
  X509_NAME* subject = X509_get_subject_name(certificate);
  const int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
  if (at < 0) return {};
  return text_of(X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at)));
}

std::string first_alternative_name(X509* certificate) {
  auto* names = static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr));
  std::string found;
  for (int i = 0; i < sk_GENERAL_NAME_num(names) && found.empty(); ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names, i);
    if (name->type == GEN_DNS || name->type == GEN_URI) found = text_of(name->d.ia5);
  }
  GENERAL_NAMES_free(names);
  return found;
}

}  // namespace

Result<std::shared_ptr<TlsContext>> load_tls(const TlsFiles& files) {
  auto tls = std::make_shared<TlsContext>();
  auto& context = tls->context;
  boost::system::error_code failed;
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                      ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 |
                      SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context.native_handle(), SSL_MODE_RELEASE_BUFFERS);  // Idle ones keep little.
  PENSTOCK_CHECK_OK(check_pem(files.certificate, "a certificate in PEM", kCertificate));
  context.use_certificate_chain_file(files.certificate.string(), failed);
  if (failed) return unusable(files.certificate, "a certificate in PEM", failed);
  PENSTOCK_CHECK_OK(use_key(context, files.key));
  if (files.client_authority.empty()) return tls;
  PENSTOCK_CHECK_OK(
      use_authority(context, files.client_authority, "the certificate that signs clients'"));
  context.set_verify_mode(ssl::verify_peer |
                          (files.client_required ? ssl::verify_fail_if_no_peer_cert : 0));
  return tls;
}

Status check_tls(const TlsFiles& files) {
  const auto loaded = load_tls(files);
  return loaded ? Status() : loaded.error();
}

Status check_authority(const std::filesystem::path& file) {
  ssl::context context(ssl::context::tls_client);
  return use_authority(context, file, "certificates of an authority in PEM");
}

std::string stamp_of(const TlsFiles& files) {
  std::string stamp;
  for (const auto* file : {&files.certificate, &files.key, &files.client_authority}) {
    std::error_code failed;
    const auto written = std::filesystem::last_write_time(*file, failed);
    stamp += concat(failed ? 0 : written.time_since_epoch().count(), " ");
  }
  return stamp;
}

bool is_plain_http(const boost::system::error_code& failed) {
  return failed.category() == boost::asio::error::get_ssl_category() &&
         ERR_GET_REASON(static_cast<unsigned long>(failed.value())) == SSL_R_HTTP_REQUEST;
}

std::string certificate_name(SSL* connection) {
  X509* certificate = SSL_get0_peer_certificate(connection);
  if (certificate == nullptr || SSL_get_verify_result(connection) != X509_V_OK) return {};
  auto name = common_name(certificate);
  return name.empty() ? first_alternative_name(certificate) : name;
}

}  // namespace penstock::http
