// Loads certificates with OpenSSL for TLS 1.2 or later; reads the name in a client's certificate.
#include "penstock/http/tls.h"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "penstock/http/tls_check.h"

namespace penstock::http {
namespace {

namespace asio = boost::asio;
namespace ssl = asio::ssl;

constexpr std::string_view kCertificate = "CERTIFICATE-----";

// What a file is to be.
constexpr std::string_view kCertificateFile = "a certificate in PEM";
constexpr std::string_view kKeyFile = "the certificate's key in PEM";
constexpr std::string_view kAuthorityFile = "the certificate that signs clients'";

Error unusable(const std::filesystem::path& file, std::string_view what, std::string_view why) {
  return invalid_argument("cannot be used as ", what, " (", why, ")")
      .within({Where::kFile, file.string()});
}

Error unusable(const std::filesystem::path& file, std::string_view what,
               const boost::system::error_code& failed) {
  return unusable(file, what, failed.message());
}

Result<std::string> read_file(const std::filesystem::path& file, std::string_view what) {
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) return unusable(file, what, "it is a folder");
  std::ifstream in(file, std::ios::binary);
  if (!in) return unusable(file, what, std::generic_category().message(errno));
  return std::string(std::istreambuf_iterator<char>(in), {});
}

/// What OpenSSL says in codes of its own, or takes and gRPC does not.
Status check_pem(const std::filesystem::path& file, const std::string& text, std::string_view what,
                 std::string_view label) {
  if (text.empty()) return unusable(file, what, "it is empty");
  if (text.find("-----BEGIN TRUSTED CERTIFICATE-----") != text.npos) {
    return unusable(file, what,
                    "it is a trusted certificate, a form of OpenSSL's own: write it anew with "
                    "openssl x509 -in FILE -out NEW");
  }
  if (text.find(label) != text.npos) return {};
  return unusable(file, what, concat("it has no line '-----BEGIN ...", label, "'"));
}

asio::const_buffer bytes_of(const std::string& text) {
  return asio::buffer(text.data(), text.size());
}

/// Nobody is there to be asked for a pass phrase.
Status use_key(ssl::context& context, const std::filesystem::path& file, const std::string& text) {
  PENSTOCK_CHECK_OK(check_pem(file, text, kKeyFile, "PRIVATE KEY-----"));
  boost::system::error_code failed;
  const auto asked = std::make_shared<bool>(false);
  context.set_password_callback(
      [asked](std::size_t, ssl::context::password_purpose) {
        *asked = true;
        return std::string();
      },
      failed);
  if (!failed) context.use_private_key(bytes_of(text), ssl::context::pem, failed);
  // A key of another kind than the certificate's is taken beside it.
  if (!failed && SSL_CTX_check_private_key(context.native_handle()) != 1) {
    return unusable(file, kKeyFile, "it is the key of another certificate");
  }
  if (!failed) return {};
  if (!*asked) return unusable(file, kKeyFile, failed);
  return unusable(file, kKeyFile,
                  "it is locked by a pass phrase: write it without one with openssl pkey -in FILE "
                  "-out NEW, for the server's user alone to read");
}

Status use_authority(ssl::context& context, const std::filesystem::path& file,
                     const std::string& text, std::string_view what) {
  PENSTOCK_CHECK_OK(check_pem(file, text, what, kCertificate));
  boost::system::error_code failed;
  context.add_certificate_authority(bytes_of(text), failed);
  return failed ? unusable(file, what, failed) : Status();
}

/// When the files were written, as text: another one, where one of them has changed.
std::string stamp_of(const TlsFiles& files) {
  std::string stamp;
  for (const auto* file : {&files.certificate, &files.key, &files.client_authority}) {
    std::error_code failed;
    const auto written = std::filesystem::last_write_time(*file, failed);
    stamp += concat(failed ? 0 : written.time_since_epoch().count(), " ");
  }
  return stamp;
}

Result<TlsTexts> read_tls(const TlsFiles& files) {
  TlsTexts texts;
  PENSTOCK_TRY(texts.certificate, read_file(files.certificate, kCertificateFile));
  PENSTOCK_TRY(texts.key, read_file(files.key, kKeyFile));
  if (!files.client_authority.empty()) {
    PENSTOCK_TRY(texts.client_authority, read_file(files.client_authority, kAuthorityFile));
  }
  PENSTOCK_CHECK_OK(make_tls(files, texts));
  return texts;
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

Result<std::shared_ptr<TlsContext>> make_tls(const TlsFiles& files, const TlsTexts& texts) {
  auto tls = std::make_shared<TlsContext>();
  auto& context = tls->context;
  boost::system::error_code failed;
  context.set_options(ssl::context::default_workarounds | ssl::context::no_sslv2 |
                      ssl::context::no_sslv3 | ssl::context::no_tlsv1 | ssl::context::no_tlsv1_1 |
                      SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_mode(context.native_handle(), SSL_MODE_RELEASE_BUFFERS);  // Idle ones keep little.
  PENSTOCK_CHECK_OK(
      check_pem(files.certificate, texts.certificate, kCertificateFile, kCertificate));
  context.use_certificate_chain(bytes_of(texts.certificate), failed);
  if (failed) return unusable(files.certificate, kCertificateFile, failed);
  PENSTOCK_CHECK_OK(use_key(context, files.key, texts.key));
  if (files.client_authority.empty()) return tls;
  PENSTOCK_CHECK_OK(
      use_authority(context, files.client_authority, texts.client_authority, kAuthorityFile));
  context.set_verify_mode(ssl::verify_peer |
                          (files.client_required ? ssl::verify_fail_if_no_peer_cert : 0));
  return tls;
}

Status check_tls(const TlsFiles& files) {
  const auto read = read_tls(files);
  return read ? Status() : read.error();
}

Result<std::optional<TlsTexts>> TlsWatch::look() {
  auto stamp = stamp_of(files_);
  const bool as_before = stamp == stamp_;
  if (as_before && failed_.empty()) return std::optional<TlsTexts>();
  stamp_ = std::move(stamp);
  auto texts = read_tls(files_);
  const auto failed =
      std::exchange(failed_, texts ? std::string() : std::string(texts.error().message()));
  if (texts) return std::optional(*std::move(texts));
  if (as_before && failed_ == failed) return std::optional<TlsTexts>();
  return std::move(texts).error();
}

Status check_authority(const std::filesystem::path& file) {
  constexpr std::string_view kWhat = "certificates of an authority in PEM";
  PENSTOCK_TRY(const auto text, read_file(file, kWhat));
  ssl::context context(ssl::context::tls_client);
  return use_authority(context, file, text, kWhat);
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
