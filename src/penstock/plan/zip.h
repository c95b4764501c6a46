// Packages as one file.
#pragma once

#include <filesystem>

#include "penstock/base/result.h"

namespace penstock::plan {

/// Stores every file under `folder`, uncompressed (weights hardly shrink), in order of their paths
/// and without times: the same files give the same bytes.
Status write_zip(const std::filesystem::path& folder, const std::filesystem::path& file);

/// Unpacks into `folder`, which is there and empty.
/// \error kDataLoss           not a zip, or damaged.
/// \error kInvalidArgument    an entry is absolute, leads outside, is a link or stands twice; the
///                            entries are larger than 64 MiB and than 20 times the file; more than
///                            65,536 files and folders.
/// \error kResourceExhausted  the entries are larger than the free space.
Status unpack_zip(const std::filesystem::path& file, const std::filesystem::path& folder);

/// Whether `file` is a zip that holds plan.json at its top, or in its only top folder.
bool is_zip_package(const std::filesystem::path& file);

}  // namespace penstock::plan
