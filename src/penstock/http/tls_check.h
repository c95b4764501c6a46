// Whether files of certificates can be used, at the start and when they change.
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

  /// What they hold, where one was written since they were last given. nullopt: none was. Files
  /// that cannot be used are tried again by each call, as rights change without a writing.
  /// \error as check_tls(), once for each reason and each time that they were written
  Result<std::optional<TlsTexts>> look();

 private:
  TlsFiles files_;
  std::string stamp_;   ///< When they were written.
  std::string failed_;  ///< Why they could not be used, as it was told; empty: they could.
};

/// Of certificates of authorities that are believed. \error kInvalidArgument  as check_tls()
Status check_authority(const std::filesystem::path& file);

}  // namespace penstock::http
