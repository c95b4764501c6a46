// Whether files of certificates can be used: before anybody is served by them, and when they
// change.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "penstock/base/result.h"
#include "penstock/base/tls_files.h"

namespace penstock::http {

/// \error kInvalidArgument  a file is missing, is not PEM, or the key is not the certificate's:
/// names
///         it.
Status check_tls(const TlsFiles& files);

/// Files that may change while a server runs. One thread at a time.
class TlsWatch {
 public:
  explicit TlsWatch(TlsFiles files) : files_(std::move(files)) {}

  /// What they hold, where one was written since the last call. nullopt: none was.
  /// \error as check_tls(), once for each time that they were written
  Result<std::optional<TlsTexts>> look();

 private:
  TlsFiles files_;
  std::string stamp_;  ///< When they were written.
};

/// Of certificates of authorities that are believed. \error kInvalidArgument  as check_tls()
Status check_authority(const std::filesystem::path& file);

}  // namespace penstock::http
