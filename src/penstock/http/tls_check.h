// Whether files of certificates can be used, before anybody is served by them.
#pragma once

#include <filesystem>

#include "penstock/base/result.h"
#include "penstock/base/tls_files.h"

namespace penstock::http {

/// \error kInvalidArgument  a file is missing, is not PEM, or the key is not the certificate's:
/// names
///         it.
Status check_tls(const TlsFiles& files);

/// Of certificates of authorities that are believed. \error kInvalidArgument  as check_tls()
Status check_authority(const std::filesystem::path& file);

}  // namespace penstock::http
