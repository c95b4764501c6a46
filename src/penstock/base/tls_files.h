// TlsFiles: what a server shows to its clients over TLS, and which clients it believes.
#pragma once

#include <filesystem>
#include <string>

namespace penstock {

/// Files in PEM. They are read again when they change.
struct TlsFiles {
  std::filesystem::path certificate;  ///< The server's own, then those between it and its root.
  std::filesystem::path key;          ///< Of the certificate, without a passphrase.
  std::filesystem::path
      client_authority;         ///< Signs the certificates of clients; empty: none asked.
  bool client_required = true;  ///< A client without a certificate is turned away at once.
};

/// What the files hold, once it was checked that TLS can use it.
struct TlsTexts {
  std::string certificate, key;
  std::string client_authority;  ///< Empty: none asked.
};

}  // namespace penstock
