// A file that appears under its name only when complete.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "penstock/base/result.h"

namespace penstock::graph {

/// What it replaces may still be mapped. Without commit() nothing is left.
/// \error kNotFound, kPermissionDenied, kResourceExhausted  it cannot be written; names the file
class NewFile {
 public:
  explicit NewFile(std::filesystem::path target);
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;
  ~NewFile();

  Status write(std::string_view bytes);
  /// Zeros up to the next multiple. \returns the offset there
  Result<std::uint64_t> align(std::size_t alignment);
  Status commit();

 private:
  Status status();
  [[nodiscard]] Error refused(const std::string& why, int number) const;

  std::filesystem::path target_;
  std::filesystem::path draft_;
  std::ofstream out_;
  std::uint64_t at_ = 0;
  int error_ = 0;
  bool done_ = false;
};

}  // namespace penstock::graph
